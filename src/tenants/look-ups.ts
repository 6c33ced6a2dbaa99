import type { Eventual } from '../core/eventual.js';

const FRESH_MS = 2_000;
const MOST = 10_000;
const MOST_AT_ONCE = 1_000;

/** What was found out about one question. */
export interface Finding<Value> {
  readonly value: Value;
  /** Whether it is kept among the good ones, which a flood of bad ones does not drive out. */
  readonly good: boolean;
  /** Milliseconds for which it may be believed, if fewer than for others. */
  readonly goodFor?: number | undefined;
}

interface Entry<Value> {
  readonly value: Value;
  /** When it is looked up again. */
  readonly until: number;
}

interface LookUp<Question, Value> {
  readonly question: Question;
  readonly promise: Promise<Value>;
  readonly resolve: (value: Value) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Answers as the database has them, at most 2 s old. What is changed on another instance is known within 5 s even if its word of it
 * is lost: to a call at once, and to one that waits, which may have begun with an old answer, by the next look of the task that
 * watches callers. What is kept is bounded, good answers and bad ones apart. All look-ups of a moment go in one query, one
 * query at a time: bad questions cost the database next to nothing, however many.
 */
export class LookUps<Question, Value> {
  private readonly good = new Map<string, Entry<Value>>();
  private readonly bad = new Map<string, Entry<Value>>();
  private waiting = new Map<string, LookUp<Question, Value>>();
  private underWay = new Map<string, LookUp<Question, Value>>();
  private running = false;
  /** Counts how often everything was forgotten: an answer from before is not kept. */
  private age = 0;

  /** @param ask answers questions in their order */
  constructor(private readonly ask: (questions: readonly Question[]) => Promise<readonly Finding<Value>[]>) {}

  /** The answer if it is known and good without asking the database. */
  remembered(id: string): Value | undefined {
    const entry = this.good.get(id);
    return entry !== undefined && entry.until > performance.now() ? entry.value : undefined;
  }

  /** The answer to the question of that id. Throws what `ask` throws. */
  find(id: string, question: Question): Eventual<Value> {
    const entry = this.good.get(id) ?? this.bad.get(id);
    return entry !== undefined && entry.until > performance.now() ? entry.value : this.findAnew(id, question);
  }

  /** The same, whatever is known. */
  findAnew(id: string, question: Question): Promise<Value> {
    const begun = this.waiting.get(id) ?? this.underWay.get(id);
    if (begun !== undefined) return begun.promise;
    let settle!: Pick<LookUp<Question, Value>, 'resolve' | 'reject'>;
    const promise = new Promise<Value>((resolve, reject) => (settle = { resolve, reject }));
    this.waiting.set(id, { question, promise, ...settle });
    if (!this.running) void this.run();
    return promise;
  }

  /** Drops everything known; what is being looked up is not kept. */
  forget(): void {
    this.good.clear();
    this.bad.clear();
    this.underWay = new Map();
    this.age += 1;
  }

  /** How many answers are kept. */
  get size(): number {
    return this.good.size + this.bad.size;
  }

  private async run(): Promise<void> {
    this.running = true;
    // What else comes in this turn goes along.
    await Promise.resolve();
    while (this.waiting.size > 0) {
      const batch = new Map<string, LookUp<Question, Value>>();
      for (const [id, lookUp] of this.waiting) {
        if (batch.size === MOST_AT_ONCE) break;
        batch.set(id, lookUp);
        this.waiting.delete(id);
      }
      this.underWay = batch;
      await this.runBatch(batch);
      this.underWay = new Map();
    }
    this.running = false;
  }

  private async runBatch(batch: ReadonlyMap<string, LookUp<Question, Value>>): Promise<void> {
    const began = performance.now();
    const { age } = this;
    try {
      const findings = await this.ask([...batch.values()].map(({ question }) => question));
      let index = 0;
      for (const [id, lookUp] of batch) {
        const finding = findings[index++]!;
        if (age === this.age) this.keep(id, finding, began);
        lookUp.resolve(finding.value);
      }
    } catch (error) {
      for (const lookUp of batch.values()) lookUp.reject(error);
    }
  }

  /** Drops what has been kept longest when there is too much. */
  private keep(id: string, { value, good, goodFor = FRESH_MS }: Finding<Value>, began: number): void {
    this.good.delete(id);
    this.bad.delete(id);
    const entries = good ? this.good : this.bad;
    if (entries.size >= MOST) entries.delete(entries.keys().next().value!);
    entries.set(id, { value, until: began + Math.min(FRESH_MS, goodFor) });
  }
}
