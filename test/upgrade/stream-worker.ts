import { setTimeout as pause } from 'node:timers/promises';
import type { GrpcClient, WorkerStream } from '../helpers/grpc.js';

export interface Job {
  readonly id: string;
  readonly leaseToken: string;
}

export type Results = readonly { readonly outcome: string }[];

export interface StreamOutcome {
  readonly settled: readonly { readonly jobs: readonly Job[]; readonly results: Results }[];
  /** Jobs that came after the worker had ended its side. */
  readonly late: readonly Job[];
  /** Whether it was asked to go. */
  readonly drained: boolean;
  /** What ought not to have happened, in words. */
  readonly fault: string | undefined;
}

const LOOK_EVERY_MS = 5;
const OK = 0;
const UNAVAILABLE = 14;

/** A worker on one stream: acks all that it is given, and ends its side when it is asked to go and has all its answers. */
export class StreamWorker {
  readonly #stream: WorkerStream;
  readonly #sent = new Map<number, readonly Job[]>();
  readonly #settled: { jobs: readonly Job[]; results: Results }[] = [];
  readonly #late: Job[] = [];
  #seen = 0;
  #drained = false;
  #ended = false;

  constructor(client: GrpcClient, hello: object) {
    this.#stream = client.work();
    this.#stream.send({ hello });
  }

  /** Works until the stream is over: asked to go, or no longer wanted. */
  async run(wanted: () => boolean): Promise<StreamOutcome> {
    const { ended, received } = this.#stream;
    let over = false;
    const end = ended.then((how) => {
      over = true;
      return how;
    });
    for (const isOver = (): boolean => over; !isOver(); await pause(LOOK_EVERY_MS)) {
      this.#look();
      if ((this.#drained || !wanted()) && this.#sent.size === 0) this.#end();
    }
    this.#look();
    const { code, details } = await end;
    // UNAVAILABLE before it was let in is a refusal; a stream that has worked ends by its worker's will.
    const refused = code === UNAVAILABLE && received.length === 0;
    const unanswered = this.#sent.size > 0 ? `, ${this.#sent.size} settles unanswered` : '';
    const bad = (code !== OK && !refused) || unanswered !== '';
    return {
      settled: this.#settled,
      late: this.#late,
      drained: this.#drained,
      fault: bad ? `a stream ended with ${code} (${details})${unanswered}` : undefined,
    };
  }

  #look(): void {
    for (; this.#seen < this.#stream.received.length; this.#seen += 1) {
      const { jobs, settled, drain } = this.#stream.received[this.#seen];
      if (drain != null) this.#drained = true;
      if (settled != null) this.#answered(settled.id as number, settled.results.acks as Results);
      if (jobs != null) this.#given(jobs.jobs as readonly Job[]);
    }
  }

  #answered(id: number, results: Results): void {
    this.#settled.push({ jobs: this.#sent.get(id)!, results });
    this.#sent.delete(id);
  }

  #given(jobs: readonly Job[]): void {
    if (this.#ended) {
      this.#late.push(...jobs);
      return;
    }
    const id = this.#seen + 1;
    this.#sent.set(id, jobs);
    this.#stream.send({ settle: { id, items: { acks: jobs.map(({ leaseToken }) => ({ leaseToken })) } } });
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#stream.stream.end();
  }
}
