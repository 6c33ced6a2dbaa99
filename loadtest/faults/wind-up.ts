import { setTimeout as pause } from 'node:timers/promises';
import type { Breach } from './breach.js';
import type { FaultWindow } from './evidence.js';
import { now } from './journal.js';
import { countOpen } from './read-rows.js';
import { readyWithin, type Stage } from './stage.js';

const READY_MS = 10_000;
const DRAIN_MS = 60_000;
/** The service that is restarted at the end. */
const LAST = 1;

export interface WindUpOptions {
  readonly windows: FaultWindow[];
  /** Milliseconds that the services are given to recover from the last fault. */
  readonly recovery: number;
  /** Milliseconds of calm after that, before and after the last restart. */
  readonly calm: number;
  readonly say: (line: string) => void;
}

export interface WoundUp {
  /** Milliseconds until the services were ready; undefined when they were not in time. */
  readonly readyAfterMs: number | undefined;
  readonly breaches: readonly Breach[];
}

/** After the faults: ready, drained, and, with everything calm again, one graceful restart; then the clients end. */
export async function windUp(stage: Stage, { windows, recovery, calm, say }: WindUpOptions): Promise<WoundUp> {
  const healed = performance.now();
  const readyAfterMs = await readyWithin(stage.services, READY_MS);
  say(`ready again after ${readyAfterMs === undefined ? 'more than 10 s' : seconds(readyAfterMs)}`);
  for (const actor of [...stage.producers, ...stage.workers, stage.tuner]) actor.tell('calm');
  for (const producer of stage.producers) await producer.ended(DRAIN_MS);
  const open = await drain(stage);
  say(`drained, ${open} jobs left, ${seconds(performance.now() - healed)} after the last fault`);
  await pause(Math.max(0, healed + recovery + calm - performance.now()));
  const begun = now();
  stage.services[LAST]!.signal('SIGTERM');
  await pause(calm);
  windows.push({ kind: 'restart-service', target: LAST, begun, ended: now() });
  const late = await endClients(stage);
  const unready = readyAfterMs === undefined ? ['they were not'] : [];
  return {
    readyAfterMs,
    breaches: [
      ...breachesOf('both services are ready within 10 s after the last fault', unready),
      ...breachesOf('every call of a worker is answered', late),
      ...breachesOf('a process ends when it is told to, and as it is told to', unaskedIn(stage)),
    ],
  };
}

/** Names of those that did not end by themselves. */
async function endClients({ workers, probe, tuner, intruder }: Stage): Promise<string[]> {
  const late: string[] = [];
  const actors = [...workers, probe, tuner, intruder];
  for (const actor of actors) actor.tell('stop');
  for (const actor of actors) if (!(await actor.ended(DRAIN_MS))) late.push(actor.options.name);
  return late;
}

function unaskedIn({ services, producers, workers, probe, tuner, intruder }: Stage): string[] {
  return [...services, ...producers, ...workers, probe, tuner, intruder].flatMap(({ unasked }) => unasked);
}

function breachesOf(rule: string, facts: readonly string[]): Breach[] {
  return facts.map((fact) => ({ rule, about: 'the run', facts: [fact] }));
}

/** Waits until all jobs are at their end, or the time is over; answers how many are not. */
async function drain({ postgres }: Stage): Promise<number> {
  for (const deadline = Date.now() + DRAIN_MS; ; await pause(200)) {
    const open = await countOpen(postgres);
    if (open === 0 || Date.now() > deadline) return open;
  }
}

/** Milliseconds, for a person. */
export function seconds(milliseconds: number): string {
  return `${(milliseconds / 1_000).toFixed(1)} s`;
}
