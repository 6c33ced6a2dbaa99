import type { Log } from '../observability/log.js';
import { Health } from './health.js';
import { Listener } from './listener.js';
import { createRelayMetrics } from './metrics.js';
import { Outbox } from './outbox.js';
import { Pace } from './pace.js';
import { Relay } from './relay.js';
import { startStatusServer } from './status-server.js';
import { Stint } from './stint.js';

export interface RelayOptions {
  /** The application's database. */
  readonly databaseUrl: string;
  readonly schema: string;
  /** Of Stint. */
  readonly url: string;
  readonly key: string | undefined;
  readonly keyFile: string | undefined;
  /** Most rows that are sent by one call. */
  readonly batch: number;
  readonly pollSeconds: number;
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
}

export interface RunningRelay {
  /** Where health and metrics are served. */
  readonly port: number;
  /** Settles the batch under way, gives it back if Stint does not answer in time, and ends every connection. */
  stop(): Promise<void>;
}

const SAMPLE_EVERY_MS = 5_000;
/** How long a stop waits for Stint's answer. */
const GRACE_MS = 8_000;

/** Starts a relay. It needs neither side to be there: it waits for them. Rejects when its port is taken. */
export async function startRelay(options: RelayOptions, log: Log): Promise<RunningRelay> {
  const metrics = createRelayMetrics();
  const health = new Health({ log, metrics });
  const status = await startStatusServer({ health, metrics }, options);
  const { databaseUrl: url, schema } = options;
  const outbox = new Outbox({ url, schema, onLost: (error) => log.warn({ err: error }, 'a connection was lost') });
  const abort = new AbortController();
  const relay = new Relay({
    outbox,
    stint: new Stint({ ...options, signal: abort.signal }),
    pace: new Pace(options.batch),
    health,
    metrics,
    log,
    schema,
    pollMs: options.pollSeconds * 1_000,
  });
  let wasListening = false;
  const listener = new Listener({
    url,
    channel: schema,
    onWake: () => relay.wake(),
    onChange: (listening, error) => {
      metrics.listening(listening);
      if (listening) log.info('listening for rows');
      else if (wasListening) log.warn({ err: error }, 'the connection for wake-ups is lost; polling until it is back');
      wasListening = listening;
    },
  });
  const sampler = startSampler(outbox, (sample) => metrics.sample(sample));
  listener.start();
  relay.start();
  log.info({ port: status.port, schema, stint: options.url }, 'relaying');
  return {
    port: status.port,
    stop: async () => {
      const late = setTimeout(() => abort.abort(), GRACE_MS);
      await relay.stop();
      clearTimeout(late);
      await sampler.stop();
      await listener.stop();
      await outbox.close();
      await status.close();
    },
  };
}

/** What fails here fails in the relay's turns too, which report it. */
function startSampler(outbox: Outbox, take: (sample: Awaited<ReturnType<Outbox['sample']>>) => void) {
  let busy: Promise<void> | undefined;
  const look = (): void => {
    busy ??= outbox
      .sample()
      .then(take, () => undefined)
      .finally(() => (busy = undefined));
  };
  look();
  const timer = setInterval(look, SAMPLE_EVERY_MS);
  return {
    stop: async (): Promise<void> => {
      clearInterval(timer);
      await busy;
    },
  };
}
