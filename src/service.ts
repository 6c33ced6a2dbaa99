import { setTimeout as pause } from 'node:timers/promises';
import type { Config } from './config.js';
import { createRefusals } from './audit/create-refusals.js';
import { createAddressOf } from './core/address.js';
import { createAdmit } from './core/admit.js';
import { createInvoke } from './core/invoke.js';
import { createOpenStream } from './core/open-stream.js';
import { startEmbedded } from './db/embedded.js';
import { migrate, requireSchema } from './db/migrate.js';
import { SchemaFloor } from './db/schema-floor.js';
import { checkWritable } from './db/writable.js';
import { createPoster } from './events/poster.js';
import { DatabaseClock } from './hotpath/clock.js';
import { createDatabase } from './hotpath/create-database.js';
import { createEngine } from './hotpath/create-engine.js';
import type { Database } from './hotpath/database.js';
import { DueTimer } from './hotpath/due-timer.js';
import type { Engine } from './hotpath/engine.js';
import { poll } from './hotpath/poll.js';
import { createGrpcServer, type GrpcServer } from './grpc/server.js';
import { startMetricsServer } from './http/metrics-server.js';
import { createHttpServer, type HttpServer } from './http/server.js';
import { greet } from './greeting.js';
import { keptSecrets, type Secrets } from './kept-secrets.js';
import type { Log } from './observability/log.js';
import { createMetrics } from './observability/metrics.js';
import type { Traces } from './observability/traces.js';
import { operations, scalerOperations } from './operations.js';
import { createTasks } from './tasks/all.js';
import { createTaskRunner, type TaskRunner } from './tasks/runner.js';
import { createCallers } from './tenants/callers.js';
import { version } from './version.js';

export interface Service {
  readonly port: number;
  readonly grpcPort: number;
  /** Lines for a person: where the service is, a key, and what to try first. */
  readonly greeting: string;
  /** Resolves, with the reason in plain words, when a newer version has changed the database so that this one must stop. */
  readonly outgrown: Promise<Error>;
  /** Stops gracefully: what is under way is finished and durable; takes no longer than the configuration allows. */
  stop(): Promise<void>;
}

/** A step of stopping. One that is not patient is given up when the time for the whole stop is over, so that a mute database cannot hold it. */
interface Undo {
  readonly run: () => Promise<void>;
  readonly patient: boolean;
}

/** What serves calls best that are not coalesced: measured 8, 16 and 32 on two cores. */
const CONNECTIONS_ONE_BY_ONE = 16;

/** What stopping may take beyond the drain. */
const AFTER_DRAIN_MS = 1_000;

/**
 * Starts everything: database, migrations, hot path, tasks, listener. When a step fails, those before it are undone.
 *
 * @throws Error in plain words for whatever stands in the way
 */
export async function startService(config: Config, log: Log): Promise<Service> {
  const undo: Undo[] = [];
  const stop = async (): Promise<void> => {
    const deadline = performance.now() + (config.drainDelaySeconds + config.drainSeconds) * 1_000 + AFTER_DRAIN_MS;
    for (const { run, patient } of undo.splice(0).reverse()) {
      const done = run().catch((error: unknown) => log.error({ err: error }, 'a step of stopping failed'));
      await (patient ? done : Promise.race([done, pause(deadline - performance.now(), undefined, { ref: false })]));
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
  const { url, known } = await openDatabase(config, log, undo);
  const schema = new SchemaFloor(known);
  const traces = await startTraces(config, log);
  if (traces !== undefined) undo.push({ run: () => traces.stop(), patient: false });
  const metrics = createMetrics();
  const oneByOne = config.coalescing ? undefined : CONNECTIONS_ONE_BY_ONE;
  const connections = config.databaseConnections;
  const database = createDatabase({ url, connections, hotConnections: oneByOne, metrics, log });
  undo.push({ run: () => closeAll(database), patient: false });
  const secrets: Secrets = await keptSecrets(config, database.ordinary);
  const callers = createCallers({
    rootKeys: secrets.adminKeys,
    rootKeyFile: config.adminKeyFile,
    issuers: config.jwtIssuers,
    mostParked: config.maxWaiting / 2,
    connections: database.ordinary,
    onTrouble: (what, error) => log.warn({ err: error }, what),
  });
  const clock = new DatabaseClock();
  // What fails here fails in the task's regular turn too, which reports it.
  const dueTimer = new DueTimer(clock, () => void runner.runOnce('promote-due').catch(() => undefined));
  const onScheduled = config.background ? (due: number): void => dueTimer.at(due) : (): void => undefined;
  const engine = createEngine({
    url,
    database,
    clock,
    onCredentials: () => callers.changed(),
    onFloor: (floor) => void schema.seen(floor),
    onScheduled,
    chores: { round: (mostRuns) => runner.round(mostRuns) },
    poster: createPoster({ allowedNetworks: config.webhookNetworks }),
    isDeaf: !config.background,
    maxWaiting: config.maxWaiting,
    oneByOne,
    metrics,
    log,
  });
  const tasks = createTasks({
    url,
    callers,
    auditRetentionDays: config.auditRetentionDays,
    background: config.background,
    metrics,
    log,
  });
  undo.push({ run: () => tasks.close(), patient: false });
  const runner = createTaskRunner({ tasks: tasks.list, engine, metrics, log });
  const { admission } = callers;
  const refused = createRefusals({
    connections: database.ordinary,
    onRefused: (recorded) => metrics.refusedAct(recorded),
    log,
  });
  const admit = createAdmit({ authenticate: callers.authenticate, admission, refused });
  const invoke = createInvoke({ engine, admit, admission, refused, metrics, log, traces });
  const addressOf = createAddressOf(config.trustedProxies);
  const grpc = createGrpcServer({
    operations,
    scaler: scalerOperations,
    invoke,
    open: createOpenStream({ admit, admission }),
    addressOf,
    log,
    tls: config.grpcTls,
    connectionSeconds: config.grpcConnectionSeconds,
  });
  const scraped = { render: () => rendered(engine, grpc, metrics) };
  const http = await createHttpServer({
    operations,
    invoke,
    addressOf,
    corsOrigins: config.corsOrigins,
    metrics: scraped,
    withMetrics: config.metricsPort === undefined,
    log,
    ready: () => checkWritable(database.ordinary, schema),
    version: version(),
    keepAliveSeconds: config.keepAliveSeconds,
  });
  if (config.metricsPort !== undefined) {
    const served = await startMetricsServer(scraped, { host: config.host, port: config.metricsPort });
    undo.push({ run: () => served.close(), patient: false });
    log.info({ port: served.port }, 'serving metrics');
  }
  undo.push({ run: () => stopEngine({ engine, runner, dueTimer }), patient: false });
  await poll({ ...engine, connections: database.claim });
  if (config.background) {
    await engine.wakeups.start();
    runner.start();
  }
  const { host } = config;
  const { port: grpcPort } = await grpc.listen({ host, port: config.grpcPort });
  undo.push({ run: () => grpc.drain({ delaySeconds: 0, deadlineSeconds: 0 }), patient: true });
  const { port } = await http.listen({ host, port: config.httpPort });
  undo.push({ run: () => drain({ http, grpc }, engine, config), patient: true });
  log.info({ port, grpcPort, host }, 'serving');
  const greeting = greet({ host, port, grpcPort, secrets });
  return { port, grpcPort, greeting, outgrown: schema.outgrown, stop };
}

async function openDatabase(config: Config, log: Log, undo: Undo[]): Promise<OpenDatabase> {
  const url = config.databaseUrl ?? (await startOwn(config, log, undo));
  const { known } = config.migrate ? await migrate(url, { log }) : await requireSchema(url);
  return { url, known };
}

interface OpenDatabase {
  readonly url: string;
  /** The highest number of a migration that this version knows. */
  readonly known: number;
}

async function startOwn({ dataDirectory }: Config, log: Log, undo: Undo[]): Promise<string> {
  const embedded = await startEmbedded({ dataDirectory, log });
  undo.push({ run: () => embedded.stop(), patient: true });
  return embedded.url;
}

/** The SDK is loaded when spans are wanted, and not else: that takes a tenth of a second and some memory. */
async function startTraces({ tracing }: Config, log: Log): Promise<Traces | undefined> {
  if (tracing === undefined) return undefined;
  const { OtelTraces } = await import('./observability/otel-traces.js');
  return new OtelTraces(tracing, version(), log);
}

/**
 * Long polls are answered with nothing, requests under way are finished. Streams are asked to go before: one that was not would lease
 * again and again, with nothing to wait for.
 */
async function drain({ http, grpc }: Transports, engine: Engine, config: Config): Promise<void> {
  const { drainDelaySeconds: delaySeconds, drainSeconds } = config;
  const how = { delaySeconds, deadlineSeconds: delaySeconds + drainSeconds };
  let onClosed = (): void => undefined;
  const streamsTold = new Promise<void>((resolve) => (onClosed = resolve));
  const beforeClose = async (): Promise<void> => {
    await streamsTold;
    engine.endings.close();
    await engine.waiters.close();
  };
  await Promise.all([http.drain({ ...how, beforeClose }), grpc.drain({ ...how, onClosed })]);
}

interface Transports {
  readonly http: HttpServer;
  readonly grpc: GrpcServer;
}

interface Running {
  readonly engine: Engine;
  readonly runner: TaskRunner;
  readonly dueTimer: DueTimer;
}

/** What was accepted is written, then the tasks end; the connections are closed after this. */
async function stopEngine({ engine, runner, dueTimer }: Running): Promise<void> {
  await engine.batches.idle();
  dueTimer.stop();
  await runner.stop();
  await engine.wakeups.stop();
}

async function closeAll(database: Database): Promise<void> {
  await Promise.all(Object.values(database).map((connections: Database['ordinary']) => connections.close()));
}

function rendered({ database, batches, waiters }: Engine, grpc: GrpcServer, metrics: ReturnType<typeof createMetrics>) {
  batches.measureWaiting();
  metrics.parkedLeases(waiters.size);
  metrics.openStreams(grpc.streams());
  for (const connections of Object.values(database) as Database['ordinary'][]) metrics.pool(connections.state());
  return metrics.render();
}
