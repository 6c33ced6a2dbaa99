import { setTimeout as pause } from 'node:timers/promises';
import { cpuOf, cpuOfFamily } from './cpu.js';
import type { Generator } from './generator.js';
import { merge, type Merged } from './merge.js';
import type { Load } from './messages.js';
import type { Rig } from './rig.js';
import type { BenchService } from './service.js';

/** What happened, and what it cost, over a stretch of time. */
export interface Measured extends Merged {
  /** Microseconds of processor time. */
  readonly cpu: { readonly service: number; readonly postgres: number; readonly generators: number };
  readonly walBytes: number;
  /** By the services' own metric. */
  readonly databaseCalls: number;
}

export interface Work {
  readonly services: readonly BenchService[];
  /** Of further processes whose processor time counts as the service's. */
  readonly pids?: readonly number[];
  /** One for each generator. */
  readonly loads: readonly Load[];
  /** The scale's unless given. */
  readonly seconds?: number;
  readonly warmSeconds?: number;
}

/** Starts the loads, lets them warm up, measures, and stops them. */
export async function measure(rig: Rig, { services, pids = [], loads, ...lasting }: Work): Promise<Measured> {
  const generators = loads.map((_, n) => rig.generator(n));
  await Promise.all(generators.map((generator, n) => generator.start(loads[n]!)));
  await pause((lasting.warmSeconds ?? rig.scale.warmSeconds) * 1_000);
  const measured = await watch(rig, { services, pids, generators, seconds: lasting.seconds ?? rig.scale.seconds });
  await stopAll(rig, generators);
  return measured;
}

/** Measures loads that run already, and lets them run on. */
export async function watch(
  rig: Rig,
  watched: {
    readonly services: readonly BenchService[];
    readonly pids?: readonly number[];
    readonly generators: readonly Generator[];
    readonly seconds: number;
  },
): Promise<Measured> {
  const { services, generators, seconds, pids = [] } = watched;
  const of: Sampled = { services, pids: [...services.map(({ pid }) => pid), ...pids], generators };
  const before = await sample(rig, of);
  told(rig, merge(await Promise.all(generators.map((generator) => generator.take()))));
  await pause(seconds * 1_000);
  const taken = merge(await Promise.all(generators.map((generator) => generator.take())));
  const after = await sample(rig, of);
  told(rig, taken);
  return {
    ...taken,
    cpu: {
      service: after.service - before.service,
      postgres: after.postgres - before.postgres,
      generators: after.generators - before.generators,
    },
    walBytes: after.walBytes - before.walBytes,
    databaseCalls: after.databaseCalls - before.databaseCalls,
  };
}

/** Stops the loads. */
export async function stopAll(rig: Rig, generators: readonly Generator[]): Promise<void> {
  told(rig, merge(await Promise.all(generators.map((generator) => generator.stop()))));
}

/** Nothing that goes wrong, measured or not, stays unsaid. */
function told(rig: Rig, { counts, faults }: Merged): void {
  const calls = counts['errors'] ?? 0;
  if (calls === 0) return;
  const first = faults[0] ?? 'unknown';
  rig.say(`${calls} calls went wrong: ${first}`);
  rig.wentWrong(calls, first);
}

interface Sampled {
  readonly services: readonly BenchService[];
  readonly pids: readonly number[];
  readonly generators: readonly Generator[];
}

async function sample(rig: Rig, { services, pids, generators }: Sampled) {
  const [service, postgres, made, walBytes, calls] = await Promise.all([
    cpuOf(pids),
    cpuOfFamily(rig.postgres.pid),
    cpuOf(generators.map(({ pid }) => pid)),
    rig.postgres.walBytes(),
    Promise.all(services.map((each) => each.metric('stint_database_calls_total'))),
  ]);
  return { service, postgres, generators: made, walBytes, databaseCalls: calls.reduce((sum, n) => sum + n, 0) };
}
