import type { Static, TSchema } from 'typebox';
import type { ServiceError } from '../errors.js';
import type { TraceHeaders } from '../observability/trace-context.js';
import type { SpanFacts, SpanShape } from '../observability/traces.js';
import type { Departure } from './departure.js';
import type { KeyLimits, TenantLimits } from './limits.js';
import type { QueuePatterns } from './queue-patterns.js';

export type Scope = 'enqueue' | 'work' | 'read' | 'manage' | 'tick' | 'admin';

/** The tenant a credential belongs to. It never comes from a path or a body. */
export interface Tenant {
  readonly id: string;
  readonly name: string;
  readonly autoCreateQueues: boolean;
  readonly limits: TenantLimits;
}

/** Who calls, with the tenant it belongs to; without one it is an administrator. */
export interface Caller {
  /** The root key of the configuration, an API key, or a token of an issuer. */
  readonly kind: 'root' | 'key' | 'token';
  /** Of the key; of a token, its issuer and subject. */
  readonly id: string;
  readonly name: string;
  /** Of an API key's secret: it may be one that is being rotated out. */
  readonly secretHash: Buffer | undefined;
  readonly scopes: ReadonlySet<Scope>;
  /** Which queues it may name and see; all of the tenant's without. */
  readonly queues: QueuePatterns | undefined;
  readonly limits: KeyLimits;
  /** When the credential ends: milliseconds since 1970 by the database's clock for a key, by this process's for a token. */
  readonly expiresAt: number | undefined;
  readonly tenant: Tenant | undefined;
}

/** An administrative act, for the audit log. */
export interface Act {
  /** Name of the operation. */
  readonly action: string;
  /** What it was done to, for instance `queue mail`. */
  readonly target: string;
  /** JSON text in the form of REST, without secrets. */
  readonly before?: string | undefined;
  readonly after?: string | undefined;
}

/** What an operation is given beside its input. */
export interface Context<Engine> {
  readonly engine: Engine;
  readonly caller: Caller;
  readonly tenant: Tenant;
  readonly departure: Departure;
  readonly requestId: string;
  /** Where the call came from. */
  readonly address: string;
  /** What jobs of this call carry that say nothing of a trace themselves. */
  readonly traceHeaders: TraceHeaders | undefined;
  /** Whether the caller may use the queue of that name: not every key may use all of its tenant's. */
  mayUse(queue: string): boolean;
  /**
   * Takes jobs that an enqueue is about to store out of the caller's allowance; answers what is to be told once whether they were, or may
   * have been: else they are given back. Throws RATE_LIMITED and QUOTA_EXCEEDED.
   */
  spendJobs(count: number): (stored: boolean) => void;
  /**
   * The call is going to wait: from now on `end` is told when the credential ends. Answers what to call when the waiting is over.
   * Throws QUOTA_EXCEEDED when too many calls of the tenant wait.
   */
  park(end: (error: ServiceError) => void): () => void;
  /** To be told of an act that is committed in the audit log. */
  acted(act: Act): void;
  /** To be told of seconds in which the call had nothing to do but wait: they do not count as its latency. */
  idled(seconds: number): void;
}

/** The same for operations outside any tenant (scope `admin`). */
export type AdminContext<Engine> = Omit<Context<Engine>, 'tenant'>;

/**
 * One REST route of an operation. Path parameters, query and body are merged into the input; a name that stands in the
 * path may not be repeated in the body. The first binding of a row bears the operation's name as its operationId, each
 * further one the name and its `suffix`.
 */
export interface HttpBinding {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Fastify's form, for instance `/v1/queues/:queue/jobs`. */
  readonly path: string;
  readonly suffix?: string;
  /** In place of the name and its suffix, where these would not make a name. */
  readonly operationId?: string;
  readonly summary?: string;
  /** The status of a success, or how to choose it from the output; `statuses` then lists the candidates. */
  readonly status?: number | ((output: unknown) => number);
  readonly statuses?: readonly number[];
  /** Names of inputs that this route does not take. */
  readonly omit?: readonly string[];
  /** Inputs that this route sets itself. */
  readonly fixed?: Readonly<Record<string, unknown>>;
  /** Headers taken as inputs: header name (lower case) to input name. A body that says otherwise is refused. */
  readonly headers?: Readonly<Record<string, string>>;
  /** A route with a form of its own: what it takes, and how that becomes the row's input and the row's output its answer. */
  readonly form?: HttpForm;
}

export interface HttpForm {
  readonly input: TSchema;
  readonly output: TSchema;
  /** May throw a ServiceError. */
  readonly toInput: (input: never) => unknown;
  /** May throw a ServiceError. */
  readonly toOutput: (output: never) => unknown;
}

/** How the calls of a row become spans. */
interface Spanned<Engine> extends SpanShape {
  /** What there is to tell of a call by its input, and once it has succeeded by its output too; undefined before. Asked for when a span is recorded. */
  readonly facts: (context: Context<Engine>, input: never, output: never) => SpanFacts;
}

/** One row of the table of operations: all that both transports need to serve it. */
export interface Operation<Engine = never> {
  /** PascalCase: the rpc's name, the operationId, the metric label and the log field. */
  readonly name: string;
  readonly group: 'Jobs' | 'Queues' | 'Schedules' | 'Events' | 'Account' | 'Admin';
  readonly summary: string;
  readonly description?: string;
  /** Any one of these is enough. */
  readonly scopes: readonly Scope[];
  /** It stores jobs: a caller who may store none is refused before the body is read. */
  readonly storesJobs?: true;
  /** No spans without. */
  readonly span?: Spanned<Engine>;
  readonly http: readonly HttpBinding[];
  readonly input: TSchema;
  readonly output: TSchema;
  /** Examples of a request's body, shown in the reference. */
  readonly example?: unknown;
  readonly run: (context: Context<Engine>, input: never) => Promise<unknown>;
}

type Row<Engine, I extends TSchema, O extends TSchema> = Omit<
  Operation<Engine>,
  'input' | 'output' | 'span' | 'run'
> & {
  readonly input: I;
  readonly output: O;
  readonly span?: SpanShape & {
    readonly facts: (context: Context<Engine>, input: Static<I>, output: Static<O> | undefined) => SpanFacts;
  };
  readonly run: (context: Context<Engine>, input: Static<I>) => Promise<Static<O>>;
};

type AdminRow<Engine, I extends TSchema, O extends TSchema> = Omit<Row<Engine, I, O>, 'run'> & {
  readonly run: (context: AdminContext<Engine>, input: Static<I>) => Promise<Static<O>>;
};

/** A row for a tenant's own things. */
export function defineOperation<Engine, I extends TSchema, O extends TSchema>(
  row: Row<Engine, I, O>,
): Operation<Engine> {
  return row;
}

/** A row for the administrator, who acts outside any tenant. */
export function defineAdminOperation<Engine, I extends TSchema, O extends TSchema>(
  row: AdminRow<Engine, I, O>,
): Operation<Engine> {
  return row;
}
