import { randomBytes } from 'node:crypto';
import pg from 'pg';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';

const CHANNEL = 'stint';
/** NOTIFY refuses 8,000 bytes. */
const MOST_BYTES = 7_900;
const SEND_EVERY_MS = 5;
const CHECK_EVERY_MS = 5_000;
const CHECK_WITHIN_MS = 5_000;

export interface WakeupsParts {
  readonly url: string;
  readonly log: Log;
  readonly metrics: Metrics;
  /** There is a connection, perhaps to another server than before. */
  readonly onConnected: () => void;
  /** Jobs may be ready in these queues; `all` when it is not known in which. */
  readonly onReady: (queueIds: readonly number[] | 'all') => void;
  /** These queues have changed. */
  readonly onChanged: (queueIds: readonly number[] | 'all') => void;
  /** Keys or tenants have changed. */
  readonly onCredentials: () => void;
  /** The versions that know the migrations up to this number are the oldest that the database serves. */
  readonly onFloor: (floor: number) => void;
  /** A job will be due at that instant, in microseconds. */
  readonly onScheduled: (dueMicros: number) => void;
}

/**
 * Who has work: told to this instance at once and to the others by NOTIFY, on a connection of its own, after the jobs have
 * committed, at most every few milliseconds (NOTIFY takes a lock that all committing transactions share, so it never rides in
 * a job's transaction). What is lost here is found by polling within a second. The connection is checked every 5 s and made
 * anew when it does not answer within 5 s more; after that everything is looked at once.
 */
export class Wakeups {
  private readonly instance = randomBytes(6).toString('base64url');
  private readonly readyOut = new Set<number>();
  private readonly changedOut = new Set<number>();
  private credentialsOut = false;
  private client: pg.Client | undefined;
  private listener: number | undefined;
  private timer: NodeJS.Timeout | undefined;
  private checker: NodeJS.Timeout | undefined;
  private sending = false;
  private stopped = false;
  private healthy = false;

  constructor(private readonly parts: WakeupsParts) {}

  /** Starts listening; comes back when listening, or when the first try has failed (it goes on trying). */
  async start(): Promise<void> {
    await this.connect(0);
  }

  /** The backend that listens for this instance, as the database numbers it; undefined while none does. */
  get processId(): number | undefined {
    return this.client === undefined ? undefined : this.listener;
  }

  /** Jobs of these queues have become ready, and this is committed. */
  ready(queueIds: Iterable<number>): void {
    const ids = [...queueIds];
    if (ids.length === 0) return;
    this.parts.onReady(ids);
    for (const id of ids) this.readyOut.add(id);
    this.plan();
  }

  /** Queues were made, changed, purged or closed, and this is committed. */
  changed(queueId: number): void {
    this.parts.onChanged([queueId]);
    this.changedOut.add(queueId);
    this.plan();
  }

  /** Keys or tenants were changed, and this is committed. */
  credentialsChanged(): void {
    this.parts.onCredentials();
    this.credentialsOut = true;
    this.plan();
  }

  /** A job was scheduled for that instant (microseconds since 1970, the database's clock), and this is committed. */
  scheduled(dueMicros: number): void {
    this.parts.onScheduled(dueMicros);
  }

  /** Sends what is left and ends the connection. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    clearTimeout(this.checker);
    const client = this.client;
    this.client = undefined;
    if (client === undefined) return;
    const message = this.message();
    if (message !== undefined) await client.query(NOTIFY, [CHANNEL, message]).catch(() => undefined);
    await client.end().catch(() => undefined);
  }

  private plan(): void {
    if (this.timer !== undefined || this.sending || this.stopped) return;
    this.timer = setTimeout(() => void this.send(), SEND_EVERY_MS);
  }

  private async send(): Promise<void> {
    this.timer = undefined;
    const client = this.client;
    const message = client === undefined ? undefined : this.message();
    if (client === undefined || message === undefined) return;
    this.sending = true;
    try {
      await client.query(NOTIFY, [CHANNEL, message]);
    } catch (error) {
      this.lost(client, error);
    }
    this.sending = false;
    if (this.hasNews) this.plan();
  }

  private get hasNews(): boolean {
    return this.readyOut.size > 0 || this.changedOut.size > 0 || this.credentialsOut;
  }

  private message(): string | undefined {
    if (!this.hasNews) return undefined;
    const credentials = this.credentialsOut ? 'credentials' : '';
    const text = `${this.instance} ${[...this.readyOut].join(',')} ${[...this.changedOut].join(',')} ${credentials}`;
    this.readyOut.clear();
    this.changedOut.clear();
    this.credentialsOut = false;
    return text.length > MOST_BYTES ? `${this.instance} all all ${credentials}` : text;
  }

  private hear(message: string): void {
    const [instance, ready, changed, credentials] = message.split(' ');
    if (instance === this.instance) return;
    if (credentials === 'credentials') this.parts.onCredentials();
    const [changedIds, readyIds] = [idsOf(changed), idsOf(ready)];
    if (changedIds.length > 0) this.parts.onChanged(changedIds);
    if (readyIds.length > 0) this.parts.onReady(readyIds);
  }

  private async connect(failures: number): Promise<void> {
    if (this.stopped) return;
    const client = new pg.Client({
      connectionString: this.parts.url,
      application_name: 'stint wakeups',
      connectionTimeoutMillis: CHECK_WITHIN_MS,
      query_timeout: CHECK_WITHIN_MS,
      keepAlive: true,
    });
    client.on('notification', ({ payload }) => this.hear(payload ?? ''));
    client.on('error', (error) => this.lost(client, error));
    client.on('end', () => this.lost(client, new Error('the connection ended')));
    try {
      await client.connect();
      await client.query(`listen ${CHANNEL}`);
      // A pooler would tell the driver a number of its own.
      const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
      this.listener = rows[0]!.pid;
    } catch (error) {
      client.removeAllListeners('end');
      void client.end().catch(() => undefined);
      this.report(false, error);
      const pause = Math.min(5_000, 100 * 2 ** failures) * (0.75 + Math.random() / 2);
      this.checker = setTimeout(() => void this.connect(failures + 1), pause);
      return;
    }
    this.client = client;
    this.report(true);
    this.parts.onConnected();
    this.parts.onCredentials();
    this.parts.onChanged('all');
    this.parts.onReady('all');
    this.checker = setTimeout(() => void this.check(client), CHECK_EVERY_MS);
    this.plan();
  }

  private async check(client: pg.Client): Promise<void> {
    try {
      const { rows } = await client.query<{ floor: number }>(CHECK);
      this.parts.onFloor(rows[0]!.floor);
    } catch (error) {
      this.lost(client, error);
      return;
    }
    if (this.client === client) this.checker = setTimeout(() => void this.check(client), CHECK_EVERY_MS);
  }

  private lost(client: pg.Client, error: unknown): void {
    if (this.client !== client || this.stopped) return;
    this.client = undefined;
    this.report(false, error);
    clearTimeout(this.checker);
    client.removeAllListeners('end');
    // end() waits for a server that may never answer; the socket is dropped instead.
    (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
    void this.connect(0);
  }

  private report(healthy: boolean, error?: unknown): void {
    this.parts.metrics.notificationsHealthy(healthy);
    if (healthy === this.healthy) return;
    this.healthy = healthy;
    if (healthy) this.parts.log.info('listening for wake-ups');
    else this.parts.log.warn({ err: error }, 'the connection for wake-ups is lost; polling until it is back');
  }
}

function idsOf(text: string | undefined): number[] | 'all' {
  if (text === 'all') return 'all';
  return text === undefined || text === '' ? [] : text.split(',').map(Number);
}

const NOTIFY = 'select pg_notify($1, $2)';

// The few rows of the ledger: asked here, since the connection has to be asked something.
const CHECK = 'select max(coalesce(compatible_from, number)) as floor from stint.migration';
