import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { ServiceError } from '../errors.js';
import type { ChoreResult } from '../hotpath/chores.js';
import type { Engine } from '../hotpath/engine.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';

export interface TaskResult {
  /** What the run did, in the task's own words; they become labels, so they are few and fixed. */
  readonly counts: Readonly<Record<string, number>>;
  /** More of the same is waiting: run again at once. */
  readonly again?: boolean;
  /** Milliseconds until there is something to do, if that is sooner than the next regular turn. */
  readonly next?: number | undefined;
}

/** One bounded chore, safe to run on several instances at once. */
export interface Task {
  readonly name: string;
  /** Milliseconds from the end of one run to the next. */
  readonly every: number;
  /** The same after a run whose counts are all 0, where that may be longer. */
  readonly whenIdle?: number;
  /**
   * The largest part of the time it may be running, from 0 to 1: slow runs make the pauses longer. For what reads more the more dead
   * rows somebody's old snapshot keeps. Not bounded unless given.
   */
  readonly share?: number;
  run(engine: Engine): Promise<TaskResult>;
  /** Ends what its runs have begun and not waited for. */
  stop?(): Promise<void>;
}

export interface TaskRunnerParts {
  readonly tasks: readonly Task[];
  readonly engine: Engine;
  readonly metrics: Pick<Metrics, 'task'>;
  readonly log: Pick<Log, 'error' | 'warn' | 'info'>;
}

export interface TaskRunner {
  start(): void;
  /** Starts no further run and waits for those under way. */
  stop(): Promise<void>;
  /** Runs a task now, after the run under way if there is one. Throws what the task throws, or Error for an unknown name. */
  runOnce(name: string): Promise<TaskResult>;
  /**
   * Runs every task now, one after the other, and those that have more to do again, up to `mostRuns` runs of each. A task that fails
   * does not hold up the others.
   */
  round(mostRuns: number): Promise<readonly ChoreResult[]>;
}

const JITTER = 0.1;
const SOONEST_MS = 100;
const FIRST_BACKOFF_MS = 500;
const LONGEST_BACKOFF_MS = 5_000;

/**
 * Runs each task again and again, never beside itself: `every` milliseconds after its last run (give or take a tenth, so that
 * instances drift apart) or `whenIdle` when that run found nothing to do, sooner or at once when it says so, later when its share
 * of the time is used up, and with growing pauses up to 5 s while it fails.
 */
export function createTaskRunner(parts: TaskRunnerParts): TaskRunner {
  const loops = new Map(parts.tasks.map((task) => [task.name, new Loop(task, parts)]));
  return {
    start: () => loops.forEach((loop) => loop.start()),
    stop: async () => {
      await Promise.all([...loops.values()].map((loop) => loop.stop()));
    },
    runOnce: async (name) => {
      const loop = loops.get(name);
      if (loop === undefined) throw new Error(`no task is called ${name}`);
      return loop.runOnce();
    },
    round: async (mostRuns) => {
      const results: ChoreResult[] = [];
      for (const [name, loop] of loops) results.push({ name, ...(await loop.runRound(mostRuns)) });
      return results;
    },
  };
}

class Loop {
  private timer: NodeJS.Timeout | undefined;
  /** Settles when the run under way and those queued behind it have ended; never rejects. */
  private running: Promise<unknown> = Promise.resolve();
  private stopped = true;
  private failures = 0;

  constructor(
    private readonly task: Task,
    private readonly parts: TaskRunnerParts,
  ) {}

  start(): void {
    if (!this.stopped) return;
    this.stopped = false;
    // Somewhere within the first period, so that not all tasks begin together.
    this.plan(this.task.every * Math.random());
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await Promise.all([this.task.stop?.(), this.running]);
  }

  runOnce(): Promise<TaskResult> {
    const run = this.running.then(() => this.measured());
    this.running = run.catch(() => undefined);
    return run;
  }

  async runRound(mostRuns: number): Promise<Omit<ChoreResult, 'name'>> {
    const did: Record<string, number> = {};
    try {
      for (let run = 1; ; run += 1) {
        const { counts, again = false } = await this.runOnce();
        this.recovered();
        for (const [what, count] of Object.entries(counts)) did[what] = (did[what] ?? 0) + count;
        if (!again || run >= mostRuns) return { did, isDone: !again, failed: false };
      }
    } catch (error) {
      this.failed(error);
      return { did, isDone: false, failed: true };
    }
  }

  private plan(milliseconds: number): void {
    if (this.stopped) return;
    // The servers keep the process alive; a task that waits must not.
    this.timer = setTimeout(() => void this.turn(), milliseconds).unref();
  }

  private async turn(): Promise<void> {
    const { every, whenIdle = every, share = 1 } = this.task;
    const started = performance.now();
    try {
      let again = true;
      let idle = true;
      let next: number | undefined;
      while (again && !this.stopped) {
        const result = await this.runOnce();
        ({ again = false, next } = result);
        idle &&= Object.values(result.counts).every((count) => count === 0);
        this.recovered();
        if (again) await yieldToOthers();
      }
      const regular = (idle ? whenIdle : every) * (1 + (Math.random() * 2 - 1) * JITTER);
      const pause = next === undefined ? regular : Math.min(regular, Math.max(next, SOONEST_MS));
      this.plan(Math.max(pause, (performance.now() - started) * (1 / share - 1)));
    } catch (error) {
      this.failed(error);
      const backoff = Math.min(FIRST_BACKOFF_MS * 2 ** (this.failures - 1), LONGEST_BACKOFF_MS);
      this.plan(Math.max(backoff, Math.min(every, LONGEST_BACKOFF_MS)));
    }
  }

  private async measured(): Promise<TaskResult> {
    const started = performance.now();
    try {
      const result = await this.task.run(this.parts.engine);
      this.parts.metrics.task(this.task.name, 'ok', (performance.now() - started) / 1000, result.counts);
      return result;
    } catch (error) {
      this.parts.metrics.task(this.task.name, 'error', (performance.now() - started) / 1000);
      throw error;
    }
  }

  private failed(error: unknown): void {
    this.failures += 1;
    if (this.failures > 1) return;
    const { name: task } = this.task;
    if (error instanceof ServiceError && error.code === 'UNAVAILABLE') {
      this.parts.log.warn({ task, reason: reasonOf(error) }, 'a background task waits for the database');
    } else {
      this.parts.log.error({ task, err: error }, 'a background task failed');
    }
  }

  private recovered(): void {
    if (this.failures > 0)
      this.parts.log.info({ task: this.task.name, failures: this.failures }, 'a background task works again');
    this.failures = 0;
  }
}

function reasonOf({ message, cause }: ServiceError): string {
  return cause instanceof Error ? cause.message : message;
}
