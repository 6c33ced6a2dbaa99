import pg from 'pg';

const WITHIN_MS = 5_000;
const CHECK_EVERY_MS = 10_000;
const LONGEST_PAUSE_MS = 30_000;

export interface ListenerParts {
  readonly url: string;
  /** Channel: the schema of the outbox. */
  readonly channel: string;
  /** A row was committed; or there is a connection, so that some may have been committed before. */
  readonly onWake: () => void;
  readonly onChange: (listening: boolean, error?: unknown) => void;
}

/**
 * Hears of rows as they are committed, on a connection of its own that is checked every 10 s and made anew when it is lost. The
 * relay lives without it, by polling.
 */
export class Listener {
  private client: pg.Client | undefined;
  private timer: NodeJS.Timeout | undefined;
  private stopped = false;

  constructor(private readonly parts: ListenerParts) {}

  start(): void {
    void this.connect(0);
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    const client = this.client;
    this.client = undefined;
    if (client !== undefined) await Promise.race([client.end().catch(() => undefined), dropped(client)]);
  }

  private async connect(failures: number): Promise<void> {
    const client = new pg.Client({
      connectionString: this.parts.url,
      application_name: 'stint relay listener',
      connectionTimeoutMillis: WITHIN_MS,
      query_timeout: WITHIN_MS,
      keepAlive: true,
    });
    client.on('notification', () => this.parts.onWake());
    client.on('error', (error) => this.lost(client, error));
    client.on('end', () => this.lost(client, new Error('the connection ended')));
    try {
      await client.connect();
      await client.query(`listen ${this.parts.channel}`);
    } catch (error) {
      drop(client);
      if (this.stopped) return;
      this.parts.onChange(false, error);
      const pause = Math.min(LONGEST_PAUSE_MS, 250 * 2 ** failures) * (0.5 + Math.random() / 2);
      this.timer = setTimeout(() => void this.connect(failures + 1), pause);
      return;
    }
    if (this.stopped) return drop(client);
    this.client = client;
    this.timer = setTimeout(() => void this.check(client), CHECK_EVERY_MS);
    this.parts.onChange(true);
    this.parts.onWake();
  }

  private async check(client: pg.Client): Promise<void> {
    try {
      await client.query('select 1');
    } catch (error) {
      this.lost(client, error);
      return;
    }
    if (this.client === client) this.timer = setTimeout(() => void this.check(client), CHECK_EVERY_MS);
  }

  private lost(client: pg.Client, error: unknown): void {
    if (this.client !== client || this.stopped) return;
    this.client = undefined;
    clearTimeout(this.timer);
    drop(client);
    this.parts.onChange(false, error);
    void this.connect(0);
  }
}

/** end() waits for a server that may never answer; the socket is dropped instead. */
function drop(client: pg.Client): void {
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}

async function dropped(client: pg.Client): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 1_000).unref());
  drop(client);
}
