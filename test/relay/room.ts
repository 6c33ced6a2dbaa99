import assert from 'node:assert/strict';
import { createLog, type Log } from '../../src/observability/log.js';
import { installOutbox } from '../../src/relay/install.js';
import { type RelayOptions, type RunningRelay, startRelay } from '../../src/relay/run.js';
import { createEmptyDatabase, query } from '../helpers/postgres.js';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';

/** An application's database with an outbox, the service, a tenant in it, and the relays between them. */
export interface RelayRoom {
  readonly service: TestService;
  /** Of a tenant, with all scopes. */
  readonly client: Client;
  readonly databaseUrl: string;
  readonly options: RelayOptions;
  /** Rows of one statement in the application's database. */
  sql(text: string, params?: unknown[]): Promise<any[]>;
  /** Calls `enqueue` in a transaction of its own; answers the key. */
  enqueue(queue: string, payload: string | null, options?: object): Promise<string>;
  /** A relay that is stopped with the room. */
  relay(options?: Partial<RelayOptions>): Promise<RunningRelay>;
  /** Waits until no row waits. */
  drained(milliseconds?: number): Promise<void>;
  /** The jobs of a queue as they are listed: in the order in which they were enqueued. */
  jobs(queue: string): Promise<any[]>;
  /** Ends the relays of this room. */
  stopRelays(): Promise<void>;
  close(): Promise<void>;
}

export async function createRelayRoom(server?: string, log: Log = createLog('silent')): Promise<RelayRoom> {
  const service = await startTestService();
  const client = await service.tenant();
  const database = await createEmptyDatabase(server);
  assert.equal(await installOutbox(database.url, 'stint_outbox', log), true);
  const relays: RunningRelay[] = [];
  const sql = (text: string, params: unknown[] = []) => query(database.url, text, params);
  const options: RelayOptions = {
    databaseUrl: database.url,
    schema: 'stint_outbox',
    url: service.base,
    key: client.key,
    keyFile: undefined,
    batch: 500,
    pollSeconds: 1,
    host: '127.0.0.1',
    port: 0,
  };
  const stopRelays = async (): Promise<void> => {
    await Promise.all(relays.splice(0).map((relay) => relay.stop()));
  };
  return {
    service,
    client,
    databaseUrl: database.url,
    options,
    sql,
    enqueue: async (queue, payload, more = {}) => {
      const rows = await sql('select stint_outbox.enqueue($1, $2, $3) as key', [queue, payload, JSON.stringify(more)]);
      return rows[0].key as string;
    },
    relay: async (more = {}) => {
      const relay = await startRelay({ ...options, ...more }, log);
      relays.push(relay);
      return relay;
    },
    drained: async (milliseconds = 15_000) => {
      await until(
        'no row waits',
        async () => (await sql('select from stint_outbox.message where parked_at is null limit 1')).length === 0,
        milliseconds,
      );
    },
    jobs: (queue) => allJobs(client, queue),
    stopRelays,
    close: async () => {
      await stopRelays();
      await service.stop();
      await database.drop();
    },
  };
}

async function allJobs(client: Client, queue: string): Promise<any[]> {
  const jobs: any[] = [];
  for (let cursor = ''; ;) {
    const path = `/v1/queues/${queue}/jobs?limit=1000&include=payload${cursor}`;
    const { status, body, text } = await client.get(path);
    if (status === 404) return [];
    assert.equal(status, 200, text);
    jobs.push(...body.jobs);
    if (body.nextCursor === undefined) return jobs;
    cursor = `&cursor=${body.nextCursor as string}`;
  }
}
