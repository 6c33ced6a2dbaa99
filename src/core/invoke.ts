import type { TSchema } from 'typebox';
import { ServiceError } from '../errors.js';
import type { Departure } from './departure.js';
import type { Eventual } from './eventual.js';
import { CallLog } from '../observability/call-log.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { readTraceHeaders, type TraceHeaders } from '../observability/trace-context.js';
import type { CallSpan, Traces } from '../observability/traces.js';
import type { Admission } from './admission.js';
import type { Admit, Approach, Refused } from './admit.js';
import { compileNamedQueues, type NamedQueues, refuseOthers } from './named-queues.js';
import type { Act, Caller, Context, HttpForm, Operation } from './operation.js';
import { compileValidator, type Validator } from './validate.js';

/** One call as an adapter hands it to the door. */
export interface Call extends Approach {
  readonly transport: 'http' | 'grpc';
  readonly departure: Departure;
  /** The route's own form, where it has one. */
  readonly form?: HttpForm | undefined;
  /** W3C Trace Context as it came, or nothing. */
  readonly traceparent: string | undefined;
  readonly tracestate: string | undefined;
  /** Reads the input in the service's form; called only once the caller is known and allowed. */
  read(): Eventual<unknown>;
}

export interface DoorParts<Engine> {
  readonly engine: Engine;
  readonly admit: Admit;
  readonly admission: Admission;
  readonly refused: Refused;
  readonly metrics: Metrics;
  readonly log: Log;
  /** No spans without. */
  readonly traces?: Traces | undefined;
}

interface Compiled {
  readonly validate: Validator;
  readonly queues: NamedQueues;
}

/**
 * The one door: admit, read, validate, run, measure, log, trace. Everything a caller may do passes here,
 * whatever the transport.
 */
export function createInvoke<Engine>(parts: DoorParts<Engine>) {
  const callLog = new CallLog(parts.log);
  const compiled = new WeakMap<TSchema, Compiled>();
  const compiledOf = (schema: TSchema): Compiled => {
    let found = compiled.get(schema);
    if (found === undefined) {
      found = { validate: compileValidator(schema), queues: compileNamedQueues(schema) };
      compiled.set(schema, found);
    }
    return found;
  };

  function run(operation: Operation<Engine>, context: CallContext<Engine>, input: unknown): Promise<unknown> {
    const { form } = context.call;
    const { validate, queues } = compiledOf(form?.input ?? operation.input);
    validate(input);
    if (context.caller.queues !== undefined)
      queues(
        input,
        refuseOthers((queue) => context.mayUse(queue)),
      );
    if (form === undefined) return perform(operation, context, input);
    return perform(operation, context, form.toInput(input as never)).then((output) => form.toOutput(output as never));
  }

  function measure(operation: Operation<Engine>, call: Call, outcome: Outcome): void {
    const { started, idle, tenant, span, error } = outcome;
    const code = call.departure.happened ? 'CLIENT_CLOSED' : outcome.code;
    const seconds = (performance.now() - started) / 1_000;
    parts.metrics.operation(operation.name, call.transport, code, Math.max(0, seconds - idle));
    if (idle > 0) parts.metrics.operationWaited(operation.name, call.transport, idle);
    if (span !== undefined) span.end({ code, tenant, idle });
    callLog.write({ operation: operation.name, call, code, seconds, tenant, span, error });
  }

  function logActs({ caller, call }: CallContext<Engine>, acts: readonly Act[]): void {
    const { kind, id, name, tenant } = caller;
    const by = { requestId: call.requestId, address: call.address, tenant: tenant?.name, actor: { kind, id, name } };
    for (const act of acts) parts.log.info({ ...act, ...by }, 'audit');
  }

  return async function invoke(operation: Operation<Engine>, call: Call): Promise<unknown> {
    const started = performance.now();
    const span = parts.traces === undefined ? undefined : begin(parts.traces, operation, call);
    let failure: ServiceError | undefined;
    let context: CallContext<Engine> | undefined;
    try {
      const known = parts.admit(operation, call);
      const caller = known instanceof Promise ? await known : known;
      context = new CallContext(parts, caller, call);
      if (span !== undefined) context.span = span;
      const read = call.read();
      const output = await run(operation, context, read instanceof Promise ? await read : read);
      if (context.acts !== undefined) logActs(context, context.acts);
      return output;
    } catch (error) {
      failure =
        error instanceof ServiceError ? error : new ServiceError('INTERNAL', 'internal error', { cause: error });
      if (failure.code === 'PERMISSION_DENIED' && context !== undefined) parts.refused(operation, context.caller, call);
      throw failure;
    } finally {
      measure(operation, call, {
        code: failure?.code ?? 'OK',
        error: failure?.code === 'INTERNAL' ? failure : undefined,
        started,
        idle: context?.idle ?? 0,
        tenant: context?.caller.tenant?.name,
        span,
      });
    }
  };
}

function begin<Engine>(traces: Traces, { span }: Operation<Engine>, call: Call): CallSpan | undefined {
  return span === undefined ? undefined : traces.begin(span, call);
}

/** Runs an operation, and tells its span of it if there is one. */
function perform<Engine>(operation: Operation<Engine>, context: CallContext<Engine>, input: unknown): Promise<unknown> {
  const { span } = context;
  if (span?.isRecorded !== true || operation.span === undefined) return operation.run(context, input as never);
  const { facts } = operation.span;
  span.tell(facts(context, input as never, undefined as never));
  return operation.run(context, input as never).then((output) => {
    span.tell(facts(context, input as never, output as never));
    return output;
  });
}

interface Outcome {
  readonly code: string;
  /** Milliseconds of this process. */
  readonly started: number;
  /** Seconds. */
  readonly idle: number;
  /** What must not happen. */
  readonly error: ServiceError | undefined;
  /** Its name, once it is known. */
  readonly tenant: string | undefined;
  readonly span: CallSpan | undefined;
}

/** What an operation sees of one call. */
class CallContext<Engine> implements Context<Engine> {
  readonly tenant: Context<Engine>['tenant'];
  idle = 0;
  acts: Act[] | undefined;
  span: CallSpan | undefined;

  constructor(
    private readonly parts: Pick<DoorParts<Engine>, 'engine' | 'admission'>,
    readonly caller: Caller,
    readonly call: Call,
  ) {
    // Rows for the administrator are typed without a tenant (defineAdminOperation), so they cannot look at it.
    this.tenant = caller.tenant as Context<Engine>['tenant'];
  }

  get engine(): Engine {
    return this.parts.engine;
  }

  get departure(): Departure {
    return this.call.departure;
  }

  get requestId(): string {
    return this.call.requestId;
  }

  get address(): string {
    return this.call.address;
  }

  get traceHeaders(): TraceHeaders | undefined {
    if (this.span !== undefined) return this.span.forJobs;
    const { traceparent, tracestate } = this.call;
    return traceparent === undefined ? undefined : readTraceHeaders(traceparent, tracestate);
  }

  mayUse(queue: string): boolean {
    return this.caller.queues === undefined || this.caller.queues.allows(queue);
  }

  spendJobs(count: number): (stored: boolean) => void {
    return this.parts.admission.jobs(this.caller, count);
  }

  park(end: (error: ServiceError) => void): () => void {
    // A stream is counted as such, and told of the end of its credential itself.
    if (this.call.withinStream === true) return NOTHING;
    return this.parts.admission.begin(this.caller, 'parkedLeases', end);
  }

  acted(act: Act): void {
    (this.acts ??= []).push(act);
  }

  idled(seconds: number): void {
    this.idle += seconds;
  }
}

const NOTHING = (): void => undefined;
