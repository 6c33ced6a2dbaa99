import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { checkInvariants } from '../../test/helpers/invariants.js';
import type { Breach } from './breach.js';
import { check, smallestFirst } from './check.js';
import { type Evidence, type FaultWindow, readTestimony } from './evidence.js';
import { type Figures, figuresOf } from './figures.js';
import { inject } from './inject.js';
import { now } from './journal.js';
import type { Plant } from './plants.js';
import { readRows } from './read-rows.js';
import { type Fault, scheduleOf } from './schedule.js';
import { type Stage, startStage } from './stage.js';
import { seconds, windUp } from './wind-up.js';

export interface RunOptions {
  readonly seed: number;
  /** How long faults are injected and jobs offered. */
  readonly seconds: number;
  /** Faults in all; about one in three and a half seconds unless given. */
  readonly faults?: number;
  readonly jobs: number;
  readonly producers?: number;
  readonly workers?: number;
  readonly plant?: Plant | undefined;
  /** What the services are given to recover after a fault, before promises of "at once" are held against them; 10 s unless given. */
  readonly recoverySeconds?: number;
  /** Within how many seconds what is promised at once must be done; 1 unless given, more where other work shares the machine. */
  readonly promptSeconds?: number;
  /** Calm after that, before and after a last graceful restart; 4 s unless given. */
  readonly calmSeconds?: number;
  /** Told of each step as it happens. */
  readonly say: (line: string) => void;
  /** Whether journals and logs are left where they are, to be looked at, when there is a breach. */
  readonly keep?: boolean;
}

export interface InjectedFault extends Fault {
  /** Why it could not be had. */
  readonly skipped: string | undefined;
}

export interface RunResult extends Figures {
  readonly seed: number;
  readonly faults: readonly InjectedFault[];
  /** Milliseconds until the services were ready after the last fault. */
  readonly readyAfterMs: number | undefined;
  /** Smallest first. */
  readonly breaches: readonly Breach[];
  /** Where the journals and logs were left. */
  readonly kept: string | undefined;
}

const CALM_S = 4;
const SECONDS_PER_FAULT = 3.3;

/** One seed: starts everything, injects its faults, heals, drains, and judges. */
export async function runSeed(options: RunOptions): Promise<RunResult> {
  const directory = await realpath(await mkdtemp(path.join(tmpdir(), 'stint-faults-')));
  let kept = false;
  try {
    const result = await runIn(options, directory);
    kept = options.keep === true && result.breaches.length > 0;
    return { ...result, kept: kept ? directory : undefined };
  } finally {
    if (!kept) await rm(directory, { recursive: true, force: true, maxRetries: 10 });
  }
}

async function runIn(options: RunOptions, directory: string): Promise<Omit<RunResult, 'kept'>> {
  const { seed, seconds, jobs, producers = 2, workers = 8, plant } = options;
  const stage = await startStage({ seed, seconds, jobs, producers, workers, plant, directory });
  try {
    const count = options.faults ?? Math.round(seconds / SECONDS_PER_FAULT);
    const schedule = scheduleOf({ seed, seconds, count, workers });
    // While all processes start at once, nothing is said of how soon things are done.
    const windows: FaultWindow[] = [{ kind: 'start', target: 0, begun: 0, ended: now() }];
    const faults = await carryOut(stage, { schedule, windows, say: options.say });
    const calm = (options.calmSeconds ?? CALM_S) * 1_000;
    const course = await windUp(stage, { windows, recovery: recoveryOf(options), calm, say: options.say });
    const evidence: Evidence = {
      ...(await readTestimony(stage.journals)),
      ...(await readRows(stage.postgres)),
      ...(await stage.watch.findings()),
      windows,
      recovery: recoveryOf(options) * 1_000,
      promptly: (options.promptSeconds ?? 1) * 1_000_000,
    };
    const breaches = smallestFirst([...course.breaches, ...check(evidence), ...(await invariants(stage))]);
    return { seed, faults, readyAfterMs: course.readyAfterMs, ...figuresOf(evidence), breaches };
  } finally {
    await stage.close();
  }
}

interface Carrying {
  readonly schedule: readonly Fault[];
  readonly windows: FaultWindow[];
  readonly say: (line: string) => void;
}

async function carryOut(stage: Stage, { schedule, windows, say }: Carrying): Promise<InjectedFault[]> {
  const started = performance.now();
  return Promise.all(
    schedule.map(async (fault) => {
      await pause(Math.max(0, started + fault.at - performance.now()));
      const lasting = fault.duration > 0 ? ` for ${seconds(fault.duration)}` : '';
      say(`${seconds(fault.at)} ${fault.kind}${targetOf(fault)}${lasting}`);
      const begun = now();
      const skipped = await inject(stage, fault);
      if (skipped === undefined) windows.push({ kind: fault.kind, target: fault.target, begun, ended: now() });
      return { ...fault, skipped };
    }),
  );
}

/** Which service or worker a fault is done to; empty for those done to the database. */
export function targetOf({ kind, target }: Fault): string {
  if (kind.endsWith('worker')) return ` ${target}`;
  return /service|clients|-database|clock/.test(kind) ? ` ${'AB'[target]!}` : '';
}

function recoveryOf({ recoverySeconds = 10 }: RunOptions): number {
  return recoverySeconds * 1_000;
}

async function invariants({ postgres }: Stage): Promise<Breach[]> {
  try {
    await checkInvariants({ sql: (text: string, values?: unknown[]) => postgres.sql(text, values) });
    return [];
  } catch (error) {
    return [{ rule: 'the invariants of the database hold', about: 'the database', facts: [(error as Error).message] }];
  }
}
