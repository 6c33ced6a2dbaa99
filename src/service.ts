import type { Config } from './config.js';
import { createInvoke } from './core/invoke.js';
import { startEmbedded } from './db/embedded.js';
import { migrate } from './db/migrate.js';
import { checkWritable } from './db/writable.js';
import { createEngine } from './hotpath/create-engine.js';
import { DueTimer } from './hotpath/due-timer.js';
import type { Database, Engine } from './hotpath/engine.js';
import { poll } from './hotpath/poll.js';
import { createHttpServer, type HttpServer } from './http/server.js';
import { greet } from './greeting.js';
import { keptSecrets, type Secrets } from './kept-secrets.js';
import type { Log } from './observability/log.js';
import { createMetrics } from './observability/metrics.js';
import { operations } from './operations.js';
import { createTasks } from './tasks/all.js';
import { createTaskRunner, type TaskRunner } from './tasks/runner.js';
import { createAuthenticate } from './tenants/authenticate.js';
import { KnownKeys } from './tenants/known-keys.js';
import { version } from './version.js';

export interface Service {
  readonly port: number;
  /** Lines for a person: where the service is, a key, and what to try first. */
  readonly greeting: string;
  /** Stops gracefully: what is under way is finished and durable; takes no longer than the configuration allows. */
  stop(): Promise<void>;
}

interface Undo {
  (): Promise<void>;
}

/**
 * Starts everything: database, migrations, hot path, tasks, listener. When a step fails, those before it are undone.
 *
 * @throws Error in plain words for whatever stands in the way
 */
export async function startService(config: Config, log: Log): Promise<Service> {
  const undo: Undo[] = [];
  const stop = async (): Promise<void> => {
    for (const step of undo.splice(0).reverse()) {
      await step().catch((error: unknown) => log.error({ err: error }, 'a step of stopping failed'));
    }
  };
  try {
    return await start(config, log, undo, stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

async function start(config: Config, log: Log, undo: Undo[], stop: () => Promise<void>): Promise<Service> {
  const url = await openDatabase(config, log, undo);
  const metrics = createMetrics();
  let keys: KnownKeys | undefined;
  let dueTimer: DueTimer | undefined;
  const engine = createEngine({
    url,
    connections: config.databaseConnections,
    maxWaiting: config.maxWaiting,
    credentials: (ordinary) => (keys = new KnownKeys(ordinary)),
    onScheduled: (due) => dueTimer?.at(due),
    metrics,
    log,
  });
  undo.push(() => closeAll(engine.database));
  const secrets: Secrets = await keptSecrets(config, engine.database.ordinary);

  const tasks = createTasks({ url, metrics, log });
  undo.push(() => tasks.close());
  const runner = createTaskRunner({ tasks: tasks.list, engine, metrics, log });
  dueTimer = new DueTimer(engine.clock, () => void runner.runOnce('promote-due').catch(() => undefined));
  const http = await createHttpServer({
    operations,
    invoke: createInvoke({ engine, authenticate: createAuthenticate({ keys: keys!, adminKey: secrets.adminKey }), metrics, log }),
    metrics: { render: () => rendered(engine.database, metrics) },
    log,
    ready: () => checkWritable(engine.database.ordinary),
    version: version(),
    keepAliveSeconds: config.keepAliveSeconds,
  });
  await poll({ ...engine, connections: engine.database.claim });
  await engine.wakeups.start();
  runner.start();
  const { port } = await http.listen({ host: config.host, port: config.httpPort });
  undo.push(() => drain({ config, http, engine, runner, dueTimer }));
  log.info({ port, host: config.host }, 'serving');
  return { port, greeting: greet({ host: config.host, port, secrets }), stop };
}

async function openDatabase(config: Config, log: Log, undo: Undo[]): Promise<string> {
  if (config.databaseUrl !== undefined) {
    await migrate(config.databaseUrl, { log });
    return config.databaseUrl;
  }
  const embedded = await startEmbedded({ dataDirectory: config.dataDirectory, log });
  undo.push(() => embedded.stop());
  await migrate(embedded.url, { log });
  return embedded.url;
}

interface Running {
  readonly config: Config;
  readonly http: HttpServer;
  readonly engine: Engine;
  readonly runner: TaskRunner;
  readonly dueTimer: DueTimer;
}

/** Long polls are answered, requests under way are finished, then batches, then tasks; connections are closed after this. */
async function drain({ config, http, engine, runner, dueTimer }: Running): Promise<void> {
  await http.drain({
    delaySeconds: config.drainDelaySeconds,
    deadlineSeconds: config.drainSeconds,
    beforeClose: async () => {
      engine.endings.close();
      await engine.waiters.close();
    },
  });
  await engine.batches.idle();
  dueTimer.stop();
  await runner.stop();
  await engine.wakeups.stop();
}

async function closeAll(database: Database): Promise<void> {
  await Promise.all(Object.values(database).map((connections: Database['ordinary']) => connections.close()));
}

function rendered(database: Database, metrics: ReturnType<typeof createMetrics>) {
  for (const connections of Object.values(database) as Database['ordinary'][]) metrics.pool(connections.state());
  return metrics.render();
}
