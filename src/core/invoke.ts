import type { TSchema } from 'typebox';
import { ServiceError } from '../errors.js';
import type { Departure } from './departure.js';
import type { Eventual } from './eventual.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import type { Caller, Context, HttpForm, Operation } from './operation.js';
import type { CredentialMemory } from './presented.js';
import { compileValidator, type Validator } from './validate.js';

/** One call as an adapter hands it to the door. */
export interface Call {
  /** The `Authorization` header or metadata as it came. */
  readonly authorization: string | undefined;
  /** Of the connection it came over. */
  readonly memory: CredentialMemory;
  readonly transport: 'http' | 'grpc';
  readonly requestId: string;
  readonly departure: Departure;
  /** The route's own form, where it has one. */
  readonly form?: HttpForm | undefined;
  /** Reads the input in the service's form; called only once the caller is known and allowed. */
  read(): Eventual<unknown>;
}

export interface DoorParts<Engine> {
  readonly engine: Engine;
  /** Throws UNAUTHENTICATED for a credential that is missing, unknown, expired or revoked. */
  readonly authenticate: (authorization: string | undefined, memory: CredentialMemory) => Eventual<Caller>;
  readonly metrics: Metrics;
  readonly log: Log;
}

/**
 * The one door: authenticate, authorise, read, validate, run, measure, log. Everything a caller may do passes here,
 * whatever the transport.
 */
export function createInvoke<Engine>(parts: DoorParts<Engine>) {
  const validators = new WeakMap<TSchema, Validator>();
  const validatorOf = (schema: TSchema): Validator => {
    let validator = validators.get(schema);
    if (validator === undefined) validators.set(schema, (validator = compileValidator(schema)));
    return validator;
  };

  function run(operation: Operation<Engine>, context: CallContext<Engine>, input: unknown): Promise<unknown> {
    const { form } = context.call;
    validatorOf(form?.input ?? operation.input)(input);
    if (form === undefined) return operation.run(context, input as never);
    return operation
      .run(context, form.toInput(input as never) as never)
      .then((output) => form.toOutput(output as never));
  }

  function measure(operation: Operation<Engine>, call: Call, outcome: Outcome): void {
    const code = call.departure.happened ? 'CLIENT_CLOSED' : outcome.code;
    const seconds = (performance.now() - outcome.started) / 1_000;
    parts.metrics.operation(operation.name, call.transport, code, Math.max(0, seconds - outcome.idle));
    if (outcome.idle > 0) parts.metrics.operationWaited(operation.name, call.transport, outcome.idle);
    if (parts.log.isLevelEnabled('debug'))
      parts.log.debug({ operation: operation.name, requestId: call.requestId, code, seconds }, 'operation');
  }

  return async function invoke(operation: Operation<Engine>, call: Call): Promise<unknown> {
    const started = performance.now();
    let code = 'OK';
    let context: CallContext<Engine> | undefined;
    try {
      const known = parts.authenticate(call.authorization, call.memory);
      const caller = known instanceof Promise ? await known : known;
      authorise(operation, caller);
      context = new CallContext(parts.engine, caller, call);
      const read = call.read();
      return await run(operation, context, read instanceof Promise ? await read : read);
    } catch (error) {
      const known =
        error instanceof ServiceError ? error : new ServiceError('INTERNAL', 'internal error', { cause: error });
      code = known.code;
      if (known.code === 'INTERNAL') {
        parts.log.error(
          { operation: operation.name, requestId: call.requestId, err: known.cause ?? known },
          'operation failed',
        );
      }
      throw known;
    } finally {
      measure(operation, call, { code, started, idle: context?.idle ?? 0 });
    }
  };
}

interface Outcome {
  readonly code: string;
  /** Milliseconds of this process. */
  readonly started: number;
  /** Seconds. */
  readonly idle: number;
}

/** What an operation sees of one call. */
class CallContext<Engine> implements Context<Engine> {
  readonly tenant: Context<Engine>['tenant'];
  idle = 0;

  constructor(
    readonly engine: Engine,
    readonly caller: Caller,
    readonly call: Call,
  ) {
    // Rows for the administrator are typed without a tenant (defineAdminOperation), so they cannot look at it.
    this.tenant = caller.tenant as Context<Engine>['tenant'];
  }

  get departure(): Departure {
    return this.call.departure;
  }

  get requestId(): string {
    return this.call.requestId;
  }

  idled(seconds: number): void {
    this.idle += seconds;
  }
}

function authorise<Engine>(operation: Operation<Engine>, caller: Caller): void {
  if (!operation.scopes.some((scope) => holds(caller, scope))) {
    throw new ServiceError('PERMISSION_DENIED', `this key lacks the scope ${operation.scopes.join(' or ')}`);
  }
  const forAdmin = operation.scopes.includes('admin');
  if (!forAdmin && caller.tenant === undefined) {
    throw new ServiceError('PERMISSION_DENIED', 'an admin key belongs to no tenant: use a key of the tenant');
  }
}

function holds(caller: Caller, scope: Operation['scopes'][number]): boolean {
  if (scope === 'admin' && caller.tenant !== undefined) return false;
  return caller.scopes.has(scope) || (scope === 'read' && caller.scopes.has('manage'));
}
