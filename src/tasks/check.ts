import { v7 } from 'uuid';
import { type Connections, sqlState } from '../db/pool.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { BREACHES, CHECK_WINDOW, type Found, placesIn, type WindowBreach } from './check-window.js';
import { INVARIANTS } from './invariants.js';
import type { Task, TaskResult } from './runner.js';

const WINDOW_IDS = 10_000;
const FEWEST_IDS = 100;
const PAUSE_MS = 1_000;
const ROUND_MS = 60_000;
/** Of one window; those beyond it are counted. */
const MOST_LOGGED = 100;
/** Of one round: more are not worth the memory, and are logged anew each round. */
const MOST_REMEMBERED = 10_000;
const BEGINNING = '00000000-0000-0000-0000-000000000000';
const DAY_MS = 86_400_000;
const TIMED_OUT = '57014';

export interface CheckParts {
  /** Of its own, with a statement timeout of `CHECK_TIMEOUT_MS`. */
  readonly connections: Pick<Connections, 'query'>;
  readonly metrics: Pick<Metrics, 'invariantBreaches' | 'invariantRound'>;
  readonly log: Pick<Log, 'error'>;
}

/** The longest that a window may hold its snapshot, and with it the dead rows of everybody. */
export const CHECK_TIMEOUT_MS = 1_000;

/**
 * Walks round all jobs in the order of their ids, a window a second, and looks whether each stands in exactly one place. A
 * breach is logged once, and counted in a gauge until a round no longer finds it. Between two rounds is a minute, so that
 * few jobs cost next to nothing: what is broken stays broken, and is found by the next round as well.
 *
 * Instances do not share the work. They only read, and begin at different places, so that two find a breach sooner than one;
 * a lock would make the age of a round mean nothing on those that never get it.
 */
export function createCheck(parts: CheckParts): Task {
  const walk = new Walk(parts);
  return { name: 'check', every: ROUND_MS, run: () => walk.step() };
}

class Walk {
  private round = new Round();
  private last = new Round();
  // Jobs are kept for a day unless told otherwise: somewhere among them.
  private position = v7({ msecs: Date.now() - Math.random() * DAY_MS });
  /** Whether this round began at the beginning. */
  private whole = false;
  private size = WINDOW_IDS;

  constructor(private readonly parts: CheckParts) {
    this.showCounts();
  }

  /** One window. */
  async step(): Promise<TaskResult> {
    const found = await this.look();
    if (found === undefined) return { counts: { timeouts: 1 }, next: PAUSE_MS };
    this.report(found);
    const counts = { checked: found.checked };
    if (found.last !== null) {
      this.position = found.last;
      return { counts, next: PAUSE_MS };
    }
    const { whole } = this;
    this.endRound();
    return whole ? { counts } : { counts, next: PAUSE_MS };
  }

  /** Undefined when it took too long: the next window is smaller. */
  private async look(): Promise<Found | undefined> {
    try {
      const [found] = await this.parts.connections.query<Found>(CHECK_WINDOW, [this.position, this.size, MOST_LOGGED]);
      this.size = Math.min(this.size * 2, WINDOW_IDS);
      return found!;
    } catch (error) {
      if (sqlState(error) !== TIMED_OUT || this.size === FEWEST_IDS) throw error;
      this.size = Math.max(Math.floor(this.size / 2), FEWEST_IDS);
      return undefined;
    }
  }

  private report({ totals, breaches }: Found): void {
    const { log } = this.parts;
    for (const breach of BREACHES) this.round.add(breach, totals?.[breach] ?? 0);
    for (const { breach, jobId, queueId, marks } of breaches ?? []) {
      const key = `${breach} ${jobId}`;
      const isNew = this.round.remember(key) && !this.last.knows(key);
      if (isNew) log.error({ breach, jobId, queueId, places: placesIn(marks) }, `broken: ${ruleOf(breach)}`);
    }
    const all = Object.values(totals ?? {}).reduce((sum, count) => sum + count, 0);
    if (all > MOST_LOGGED) log.error({ found: all, logged: MOST_LOGGED }, 'too many broken jobs to log each');
    this.showCounts();
  }

  private endRound(): void {
    if (this.whole) this.parts.metrics.invariantRound();
    [this.last, this.round] = [this.round, new Round()];
    this.whole = true;
    this.position = BEGINNING;
    this.showCounts();
  }

  private showCounts(): void {
    for (const breach of BREACHES) {
      this.parts.metrics.invariantBreaches(breach, Math.max(this.round.count(breach), this.last.count(breach)));
    }
  }
}

/** What one walk over all jobs has found. */
class Round {
  private readonly counts = new Map<WindowBreach, number>();
  private readonly known = new Set<string>();

  count(breach: WindowBreach): number {
    return this.counts.get(breach) ?? 0;
  }

  add(breach: WindowBreach, count: number): void {
    this.counts.set(breach, this.count(breach) + count);
  }

  /** Answers whether it is the first time. */
  remember(key: string): boolean {
    if (this.known.has(key)) return false;
    if (this.known.size < MOST_REMEMBERED) this.known.add(key);
    return true;
  }

  knows(key: string): boolean {
    return this.known.has(key);
  }
}

function ruleOf(breach: WindowBreach): string {
  return INVARIANTS.find((invariant) => invariant.breach === breach)!.rule;
}
