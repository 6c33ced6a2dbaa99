import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { ServiceError } from '../errors.js';

/** A statement by name: prepared once per connection, its text never put together at run time. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

export interface ConnectionsOptions {
  readonly url: string;
  /** What these connections are for; the label of their metrics and their application_name. */
  readonly name: string;
  readonly size: number;
  /** Settings for the session. */
  readonly settings: Readonly<Record<string, string>>;
  /** Milliseconds after which the server ends a statement, 0 for never; the client gives up 5 s later and drops the connection. */
  readonly statementTimeout: number;
  readonly onCall: (pool: string) => void;
  readonly onLost: (pool: string, error: Error) => void;
}

export interface PoolState {
  readonly name: string;
  readonly total: number;
  readonly idle: number;
  readonly waiting: number;
}

/** One connection in hand, for several statements in one transaction. */
export interface Connection {
  query<R>(statement: Statement, values?: readonly unknown[]): Promise<R[]>;
}

/** A connection that can be told apart: `processId` is its backend's. */
export interface OwnConnection extends Connection {
  readonly processId: number;
}

const CHECKOUT_MS = 5_000;
const CLOSE_MS = 2_000;

/**
 * Settings of all connections: tables are planned while empty, and a plan that scans or hashes them then is kept when they have
 * grown (seen: 38 ms in place of 0.3 ms for a job among 50,000).
 */
export const INDEX_SETTINGS = {
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  jit: 'off',
} as const;

/** Settings of the connections that run hot statements: no planning at all, and what is planned once stays right when dead rows pile up. */
export const HOT_SETTINGS = { ...INDEX_SETTINGS, plan_cache_mode: 'force_generic_plan' } as const;

/** A pool of connections of one purpose. Errors that mean "the database is away" come out as UNAVAILABLE. */
export class Connections {
  readonly name: string;
  private readonly pool: pg.Pool;
  private readonly broken = new WeakSet<pg.ClientBase>();
  /** A pooler tells the driver a number of its own. */
  private readonly backends = new WeakMap<pg.ClientBase, number>();
  /** Those that are ready for use. One may be lost before it is: then it is removed and was never connected. */
  private readonly open = new Set<pg.ClientBase>();
  private closing = false;
  private onClosed: (() => void) | undefined;

  constructor(private readonly options: ConnectionsOptions) {
    this.name = options.name;
    const settings = {
      search_path: 'stint',
      timezone: 'UTC',
      statement_timeout: String(options.statementTimeout),
      ...options.settings,
    };
    // Its type does not say that it is awaited.
    const awaited = { onConnect: (client: pg.ClientBase) => this.prepare(client, settings) };
    this.pool = new pg.Pool({
      connectionString: options.url,
      application_name: `stint ${options.name}`,
      max: options.size,
      connectionTimeoutMillis: CHECKOUT_MS,
      ...(options.statementTimeout > 0 ? { query_timeout: options.statementTimeout + 5_000 } : {}),
      idleTimeoutMillis: 0,
      keepAlive: true,
      ...awaited,
    });
    this.pool.on('connect', (client) => {
      this.open.add(client);
      // For as long as the client lives: an error may come in the very chunk that ends its connecting or its last query, between two
      // owners, and an error event that nobody listens to would end the process (C28).
      client.on('error', () => this.broken.add(client));
    });
    this.pool.on('remove', (client) => {
      this.open.delete(client);
      if (this.open.size === 0) this.onClosed?.();
    });
    this.pool.on('error', (error) => {
      if (!this.closing) this.options.onLost(this.name, error);
    });
  }

  /** Runs one statement in a transaction of its own. Throws UNAVAILABLE, or the database's own error for a fault in the data. */
  async query<R>(statement: Statement, values: readonly unknown[] = []): Promise<R[]> {
    return this.withConnection((connection) => connection.query<R>(statement, values));
  }

  /** Runs several statements in one transaction; rolls back when `run` throws. */
  async transaction<T>(run: (connection: OwnConnection) => Promise<T>): Promise<T> {
    return this.withConnection(async (connection) => {
      await connection.query({ name: 'begin', text: 'begin' });
      try {
        const result = await run(connection);
        await connection.query({ name: 'commit', text: 'commit' });
        return result;
      } catch (error) {
        if (!isConnectionLost(error)) await connection.query({ name: 'rollback', text: 'rollback' });
        throw error;
      }
    });
  }

  /** Checks a connection out for `run`; one on which the database went away is dropped. */
  async withConnection<T>(run: (connection: OwnConnection) => Promise<T>): Promise<T> {
    const client = await this.checkout();
    try {
      return await run({
        processId: this.backends.get(client)!,
        query: async <R>(statement: Statement, values: readonly unknown[] = []) => {
          this.options.onCall(this.name);
          const result = await client.query({
            name: statement.name,
            text: statement.text,
            values: values as unknown[],
          });
          return result.rows as R[];
        },
      });
    } catch (error) {
      if (isConnectionLost(error)) this.broken.add(client);
      throw translate(error);
    } finally {
      client.release(this.broken.has(client));
    }
  }

  state(): PoolState {
    const { totalCount, idleCount, waitingCount } = this.pool;
    return { name: this.name, total: totalCount, idle: idleCount, waiting: waitingCount };
  }

  /** Ends every connection, those in use when they are given back; comes back when they are closed, or after 2 s if the server is mute. */
  async close(): Promise<void> {
    this.closing = true;
    const closed = new Promise<void>((resolve) => (this.onClosed = resolve));
    await this.pool.end();
    if (this.open.size > 0) await Promise.race([closed, pause(CLOSE_MS, undefined, { ref: false })]);
  }

  /** Gives a new connection its settings, by a statement: a pooler refuses those of the start, or drops them in silence. */
  private async prepare(client: pg.ClientBase, settings: Readonly<Record<string, string>>): Promise<void> {
    const late = setTimeout(() => cut(client), CHECKOUT_MS);
    try {
      const [names, values] = [Object.keys(settings), Object.values(settings)];
      const { rows } = await client.query<{ pid: number }>(SET_SESSION, [names, values]);
      this.backends.set(client, rows[0]!.pid);
    } catch (error) {
      // A server that says nothing would not answer the end of the connection either.
      cut(client);
      throw error;
    } finally {
      clearTimeout(late);
    }
  }

  private async checkout(): Promise<pg.PoolClient> {
    try {
      return await this.pool.connect();
    } catch (error) {
      throw unavailable(error);
    }
  }
}

/** What every connection begins with; takes the names and the values of settings. */
export const SET_SESSION = `select pg_backend_pid() as pid, count(set_config(name, value, false))
from unnest($1::text[], $2::text[]) as setting(name, value)`;

function cut(client: pg.ClientBase): void {
  (client as unknown as { readonly connection: { readonly stream: Socket } }).connection.stream.destroy();
}

/** What a statement's failure means for the caller: the database is away, or the statement itself is at fault. */
export function translate(error: unknown): unknown {
  return isConnectionLost(error) || isTransient(error) ? unavailable(error) : error;
}

function unavailable(cause: unknown): ServiceError {
  if (cause instanceof ServiceError) return cause;
  return new ServiceError('UNAVAILABLE', 'the database is not available', { cause, retryAfter: 1 });
}

/** The database's SQLSTATE of an error, if it has one. */
export function sqlState(error: unknown): string | undefined {
  const cause = error instanceof ServiceError ? error.cause : error;
  return cause instanceof pg.DatabaseError ? cause.code : undefined;
}

/**
 * True when the connection must not be used again and it is unknown whether the statement was carried out. A read-only
 * server (25006) counts too: after a failover the address may lead to the new primary (C29).
 */
export function isConnectionLost(error: unknown): boolean {
  const cause = error instanceof ServiceError && error.code === 'UNAVAILABLE' ? error.cause : error;
  if (cause instanceof ServiceError) return false;
  if (cause instanceof pg.DatabaseError) {
    const code = cause.code ?? '';
    return code.startsWith('08') || code.startsWith('57P') || code === '25006' || code === '25P03';
  }
  return (
    cause instanceof Error && CONNECTION_FAULT.test(`${(cause as NodeJS.ErrnoException).code ?? ''} ${cause.message}`)
  );
}

const CONNECTION_FAULT =
  /ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|Connection terminated|connection error|not queryable|Query read timeout|timeout exceeded when trying to connect/i;

/** True for faults that pass by themselves and left nothing behind: serialisation, deadlock, resources, timeouts. */
export function isTransient(error: unknown): boolean {
  const code = sqlState(error) ?? '';
  return code.startsWith('40') || code.startsWith('53') || code === '57014' || code === '55P03';
}
