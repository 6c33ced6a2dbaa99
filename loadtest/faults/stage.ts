import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '../../test/helpers/service-process.js';
import { ActorProcess } from './actor-process.js';
import { Link } from './link.js';
import type { Plant } from './plants.js';
import { type FaultyPostgres, startPostgres } from './postgres.js';
import { ServiceProcess } from './service-process.js';
import { prepareTenants } from './tenants.js';
import { Watch } from './watch.js';

const READY_MS = 40_000;
/** The second service's clock is that much ahead from its start; a fault moves a clock by as much. */
const CLOCK_STEP_MS = 600_000;

export interface StageOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly jobs: number;
  readonly producers: number;
  readonly workers: number;
  readonly plant: Plant | undefined;
  /** Empty; everything that the run writes goes there. */
  readonly directory: string;
}

/** Everything that a run is made of. */
export interface Stage {
  readonly postgres: FaultyPostgres;
  readonly services: readonly ServiceProcess[];
  /** Between the clients and each service, and between each service and Postgres. */
  readonly clientLinks: readonly Link[];
  readonly databaseLinks: readonly Link[];
  readonly producers: readonly ActorProcess[];
  readonly workers: readonly ActorProcess[];
  readonly probe: ActorProcess;
  /** Turns the bound of a queue; asks, as another tenant, for what is not its own. */
  readonly tuner: ActorProcess;
  readonly intruder: ActorProcess;
  readonly watch: Watch;
  readonly journals: string;
  /** Ends what still runs. */
  close(): Promise<void>;
}

export async function startStage(options: StageOptions): Promise<Stage> {
  const undo: (() => Promise<unknown>)[] = [];
  const close = async (): Promise<void> => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  try {
    return { ...(await start(options, undo)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function start(options: StageOptions, undo: (() => Promise<unknown>)[]): Promise<Omit<Stage, 'close'>> {
  const postgres = await startPostgres(options.directory);
  undo.push(() => postgres.stop());
  const adminKey = randomBytes(24).toString('hex');
  const backs = await startServices(options, { postgres, adminKey, undo });
  const { services } = backs;
  const clientLinks = await Promise.all(
    services.map(({ options: { port } }) => Link.open({ host: '127.0.0.1', port })),
  );
  undo.push(() => Promise.all(clientLinks.map((link) => link.close())));
  const keys = await prepareTenants(services[0]!.base, adminKey);
  const watch = await Watch.start(postgres);
  undo.push(() => watch.end());
  const journals = path.join(options.directory, 'journals');
  await mkdir(journals);
  const common = { seed: options.seed, key: keys.own, directory: journals, seconds: options.seconds };
  const bases = clientLinks.map(({ port }) => `http://127.0.0.1:${port}`);
  const producers = range(options.producers).map((index) => {
    const jobs = Math.ceil(options.jobs / options.producers);
    return new ActorProcess({ ...common, part: 'producer', name: `producer-${index}`, bases, jobs });
  });
  const workers = range(options.workers).map((index) => {
    return new ActorProcess({ ...common, part: 'worker', name: `worker-${index}`, bases, jobs: 0 });
  });
  const direct = services.map(({ base }) => base);
  const probe = new ActorProcess({ ...common, part: 'probe', name: 'probe', bases: direct, jobs: 0 });
  const tuner = new ActorProcess({ ...common, part: 'tuner', name: 'tuner', bases, jobs: 0 });
  const intruder = new ActorProcess({ ...common, key: keys.other, part: 'intruder', name: 'intruder', bases, jobs: 0 });
  const actors = [...producers, ...workers, probe, tuner, intruder];
  undo.push(() => Promise.all(actors.map((actor) => actor.ended(0))));
  return { postgres, ...backs, clientLinks, producers, workers, probe, tuner, intruder, watch, journals };
}

interface ServiceParts {
  readonly postgres: FaultyPostgres;
  readonly adminKey: string;
  readonly undo: (() => Promise<unknown>)[];
}

async function startServices(
  { directory, plant }: StageOptions,
  { postgres, adminKey, undo }: ServiceParts,
): Promise<Pick<Stage, 'services' | 'databaseLinks'>> {
  const to = new URL(postgres.url);
  const target = { host: to.hostname, port: Number(to.port) };
  const databaseLinks = [await Link.open(target), await Link.open(target)];
  undo.push(() => Promise.all(databaseLinks.map((link) => link.close())));
  const planted: Record<string, string> = plant === undefined ? {} : { STINT_TEST_PLANT: plant };
  const services = await Promise.all(
    databaseLinks.map(async (link, index) => {
      const databaseUrl = new URL(postgres.url);
      databaseUrl.port = String(link.port);
      return new ServiceProcess({
        name: 'AB'[index]!,
        port: await freePort(),
        databaseUrl: databaseUrl.href,
        adminKey,
        logFile: path.join(directory, `service-${'AB'[index]!}.log`),
        env: {
          ...planted,
          STINT_TEST_CLOCK_AHEAD: String(index * CLOCK_STEP_MS),
          STINT_TEST_CLOCK_STEP: String(CLOCK_STEP_MS),
        },
      });
    }),
  );
  undo.push(() => Promise.all(services.map((service) => service.stop())));
  await untilReady(services, READY_MS);
  return { services, databaseLinks };
}

/** Milliseconds until all of them were ready at once; undefined when they were not in time. */
export async function readyWithin(services: readonly ServiceProcess[], most: number): Promise<number | undefined> {
  const started = performance.now();
  while (performance.now() - started < most) {
    const ready = await Promise.all(services.map((service) => service.isReady()));
    if (ready.every(Boolean)) return performance.now() - started;
    await pause(50);
  }
  return undefined;
}

async function untilReady(services: readonly ServiceProcess[], most: number): Promise<void> {
  if ((await readyWithin(services, most)) === undefined) throw new Error('the services did not become ready');
}

function range(length: number): number[] {
  return Array.from({ length }, (_, index) => index);
}
