import type { Static, TSchema } from 'typebox';
import type { Departure } from './departure.js';

export type Scope = 'enqueue' | 'work' | 'read' | 'manage' | 'tick' | 'admin';

/** The tenant a credential belongs to. It never comes from a path or a body. */
export interface Tenant {
  readonly id: string;
  readonly name: string;
  readonly autoCreateQueues: boolean;
}

/** Who calls: an API key, with the tenant it belongs to; without one it is an admin key. */
export interface Caller {
  readonly keyId: string;
  readonly keyName: string;
  readonly scopes: ReadonlySet<Scope>;
  readonly tenant: Tenant | undefined;
}

/** What an operation is given beside its input. */
export interface Context<Engine> {
  readonly engine: Engine;
  readonly caller: Caller;
  readonly tenant: Tenant;
  readonly departure: Departure;
  readonly requestId: string;
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

/** One row of the table of operations: all that both transports need to serve it. */
export interface Operation<Engine = never> {
  /** PascalCase: the rpc's name, the operationId, the metric label and the log field. */
  readonly name: string;
  readonly group: 'Jobs' | 'Queues' | 'Schedules' | 'Admin';
  readonly summary: string;
  readonly description?: string;
  /** Any one of these is enough. */
  readonly scopes: readonly Scope[];
  readonly http: readonly HttpBinding[];
  readonly input: TSchema;
  readonly output: TSchema;
  /** Examples of a request's body, shown in the reference. */
  readonly example?: unknown;
  readonly run: (context: Context<Engine>, input: never) => Promise<unknown>;
}

type Row<Engine, I extends TSchema, O extends TSchema> = Omit<Operation<Engine>, 'input' | 'output' | 'run'> & {
  readonly input: I;
  readonly output: O;
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
