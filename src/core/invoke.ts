import type { TSchema } from 'typebox';
import { ServiceError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import type { Caller, Context, HttpForm, Operation } from './operation.js';
import { compileValidator, type Validator } from './validate.js';

/** One call as an adapter hands it to the door. */
export interface Call {
  /** The `Authorization` header or metadata as it came. */
  readonly authorization: string | undefined;
  readonly transport: 'http' | 'grpc';
  readonly requestId: string;
  /** Aborted when the caller is gone before it has the answer. Made when first asked for: few operations need it. */
  readonly signal: AbortSignal;
  /** Whether the caller is gone. */
  readonly isGone: () => boolean;
  /** The route's own form, where it has one. */
  readonly form?: HttpForm;
  /** Reads the input in the service's form; called only once the caller is known and allowed. */
  readonly read: () => Promise<unknown>;
}

export interface DoorParts<Engine> {
  readonly engine: Engine;
  /** Throws UNAUTHENTICATED for a credential that is missing, unknown, expired or revoked. */
  readonly authenticate: (authorization: string | undefined) => Promise<Caller>;
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

  async function answer(operation: Operation<Engine>, call: Call, idled: (seconds: number) => void): Promise<unknown> {
    const caller = await parts.authenticate(call.authorization);
    authorise(operation, caller);
    const context = contextOf(parts.engine, { caller, call, idled });
    const input = await call.read();
    if (call.form === undefined) {
      validatorOf(operation.input)(input);
      return operation.run(context, input as never);
    }
    validatorOf(call.form.input)(input);
    const output = await operation.run(context, call.form.toInput(input as never) as never);
    return call.form.toOutput(output as never);
  }

  return async function invoke(operation: Operation<Engine>, call: Call): Promise<unknown> {
    const started = performance.now();
    let code = 'OK';
    let idle = 0;
    try {
      return await answer(operation, call, (seconds) => (idle += seconds));
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
      if (call.isGone()) code = 'CLIENT_CLOSED';
      const seconds = (performance.now() - started) / 1_000;
      parts.metrics.operation(operation.name, call.transport, code, Math.max(0, seconds - idle));
      if (idle > 0) parts.metrics.operationWaited(operation.name, call.transport, idle);
      parts.log.debug({ operation: operation.name, requestId: call.requestId, code, seconds }, 'operation');
    }
  };
}

interface Admitted {
  readonly caller: Caller;
  readonly call: Call;
  readonly idled: (seconds: number) => void;
}

function contextOf<Engine>(engine: Engine, { caller, call, idled }: Admitted): Context<Engine> {
  return {
    engine,
    caller,
    // Rows for the administrator are typed without a tenant (defineAdminOperation), so they cannot look at it.
    tenant: caller.tenant as Context<Engine>['tenant'],
    get signal() {
      return call.signal;
    },
    requestId: call.requestId,
    idled,
  };
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
