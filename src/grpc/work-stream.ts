import type { Metadata, ServerDuplexStream } from '@grpc/grpc-js';
import { Departure } from '../core/departure.js';
import { invalidField, ServiceError } from '../errors.js';
import { Malformed } from './malformed.js';
import type { FailedStatus } from './status.js';
import { Window } from './window.js';

/** Messages of the stream, as the loader makes them. */
export interface WorkRequest {
  readonly hello?: Hello;
  readonly credits?: { readonly credits?: number };
  readonly settle?: { readonly id?: number; readonly items?: object };
}

export interface Hello {
  readonly queues?: readonly object[];
  readonly worker?: string;
  readonly credits?: number;
  readonly visibilityTimeout?: object;
}

/** What the stream asks of the door, each with a departure of its own. */
export interface WorkDoor {
  /** Lets the worker in, and answers what lets it out again; `end` is told when its credential ends. */
  open(end: (error: ServiceError) => void): Promise<() => void>;
  /** Leases up to so many jobs, waiting for the first; answers the message's form. */
  lease(hello: Hello, maxJobs: number, departure: Departure): Promise<readonly HeldJob[]>;
  /** Carries out settles; answers the message's form. */
  settle(items: object, departure: Departure): Promise<Settlement>;
  statusOf(error: unknown): FailedStatus;
  /** Settles when the worker's side of the connection is seen to live; never, if it does not. */
  signOfLife(): Promise<void>;
}

export interface HeldJob {
  readonly message: object;
  readonly leaseToken: string;
  /** Milliseconds. */
  readonly visibilityTimeout: number;
}

export interface Settlement {
  readonly message: object;
  /** Leases that are over for this worker. */
  readonly ended: readonly string[];
  readonly extended: readonly { readonly leaseToken: string; readonly remaining: number }[];
}

export type WorkCall = ServerDuplexStream<WorkRequest | Malformed, object> & { readonly metadata: Metadata };

const MOST_CREDITS = 1_000;
/** Settles under way on one stream, beyond which it is read no further. */
const MOST_SETTLES = 16;

/**
 * One worker's stream. Invariants:
 * - One lease at a time is asked for, for no more jobs than the worker's window has room for; the next only when the jobs of the one
 *   before have been written. So a slow reader holds no more than its window, and one reply at most waits in memory.
 * - Jobs that have not been written when the stream breaks go back (their lease's departure is told); what was written stays leased.
 * - A stream whose settles pile up is not read until some are done.
 * - A worker that lets a lease run out may be frozen, or cut off without a word: it is given no more until it is heard of. Else it
 *   would take each job anew that it cannot work at, and spend its attempts.
 */
export class WorkStream {
  readonly #window = new Window(() => this.#doubt());
  #hello: Hello | undefined;
  /** Set while the worker is let in. */
  #letOut: (() => void) | undefined;
  /** Of the lease that is waited for or being written. */
  #leasing: Departure | undefined;
  /** Whether the lease under way waits, and may be called back. */
  #waiting = false;
  /** How many jobs it asks for: more than the window has room for must not come. */
  #asked = 0;
  #settles = 0;
  #ending = false;
  #over = false;
  /** The worker has ended its side. */
  #ended = false;
  /** A lease has run out, and the worker was not heard of since. */
  #doubted = false;

  constructor(
    private readonly call: WorkCall,
    private readonly door: WorkDoor,
    private readonly onOver: () => void,
  ) {
    call.on('data', (message: WorkRequest | Malformed) => this.#receive(message));
    call.on('end', () => this.#end());
    call.on('error', () => this.broken());
  }

  /** No more jobs: the worker is asked to finish and to go. */
  drain(): void {
    if (this.#over) return;
    if (this.#hello === undefined) {
      this.#fail(new ServiceError('UNAVAILABLE', 'shutting down'));
      return;
    }
    if (!this.#ending) this.call.write({ drain: {} });
    this.#stopLeasing();
  }

  /** The worker is gone: what it was not sent goes back. */
  broken(): void {
    if (this.#over) return;
    this.#close();
    this.#leasing?.tell();
  }

  #receive(message: WorkRequest | Malformed): void {
    if (this.#over) return;
    this.#doubted = false;
    try {
      this.#take(message);
    } catch (error) {
      this.#fail(error);
    }
  }

  #take(message: WorkRequest | Malformed): void {
    if (message instanceof Malformed) throw message.error;
    if (this.#hello === undefined) {
      if (message.hello === undefined) throw invalidField('hello', 'must be the first message');
      this.#window.credits = creditsOf(message.hello, 'hello.credits');
      this.#hello = message.hello;
      void this.#open(message.hello);
    } else if (message.credits !== undefined) {
      this.#window.credits = creditsOf(message.credits, 'credits.credits');
      if (this.#window.free < this.#asked) this.#callBack();
      else this.#pump();
    } else if (message.settle !== undefined) {
      void this.#settle(message.settle);
    } else {
      throw invalidField('message', message.hello === undefined ? 'must be given' : 'may be hello only once');
    }
  }

  async #open(hello: Hello): Promise<void> {
    try {
      const letOut = await this.door.open((error) => this.#fail(error));
      if (this.#over) return letOut();
      this.#letOut = letOut;
    } catch (error) {
      this.#fail(error);
      return;
    }
    // A lease of a worker who is gone already: it tells what is wrong with the hello, and takes no job.
    const gone = new Departure();
    gone.tell();
    await this.#lease(hello, 1, gone);
  }

  async #settle({ id = 0, items = {} }: NonNullable<WorkRequest['settle']>): Promise<void> {
    this.#settles += 1;
    if (this.#settles >= MOST_SETTLES) this.call.pause();
    try {
      const settlement = await this.door.settle(items, new Departure());
      for (const leaseToken of settlement.ended) this.#window.drop(leaseToken);
      for (const { leaseToken, remaining } of settlement.extended) this.#window.extend(leaseToken, remaining);
      if (!this.#over) this.call.write({ settled: { id, results: settlement.message } });
    } catch (error) {
      this.#fail(error);
    }
    this.#settles -= 1;
    if (this.#settles < MOST_SETTLES && !this.#over) this.call.resume();
    this.#finish();
    this.#pump();
  }

  #doubt(): void {
    this.#doubted = true;
    this.#callBack();
    void this.door.signOfLife().then(() => {
      this.#doubted = false;
      this.#pump();
    });
  }

  #pump(): void {
    if (this.#leasing !== undefined || this.#ending || this.#doubted) return;
    if (this.#letOut === undefined || this.#hello === undefined) return;
    const { free } = this.#window;
    if (free > 0) void this.#lease(this.#hello, free, new Departure());
  }

  async #lease(hello: Hello, maxJobs: number, departure: Departure): Promise<void> {
    this.#leasing = departure;
    this.#waiting = true;
    this.#asked = maxJobs;
    try {
      const jobs = await this.door.lease(hello, maxJobs, departure);
      this.#waiting = false;
      // Called back while they came: they have gone back already.
      if (jobs.length > 0 && !departure.happened) await this.#send(jobs);
    } catch (error) {
      departure.tell();
      this.#fail(error);
    }
    this.#waiting = false;
    this.#asked = 0;
    this.#leasing = undefined;
    this.#finish();
    this.#pump();
  }

  async #send(jobs: readonly HeldJob[]): Promise<void> {
    for (const { leaseToken, visibilityTimeout } of jobs) this.#window.hold(leaseToken, visibilityTimeout);
    const message = { jobs: { jobs: jobs.map((job) => job.message) } };
    await new Promise<void>((resolve, reject) => {
      this.call.write(message, (error?: Error | null) => (error == null ? resolve() : reject(error)));
    });
  }

  /** A lease that waits is taken back; one that has jobs is not. */
  #callBack(): void {
    if (this.#waiting) this.#leasing?.tell();
  }

  #stopLeasing(): void {
    this.#ending = true;
    this.#callBack();
  }

  #end(): void {
    if (this.#over) return;
    this.#stopLeasing();
    this.#ended = true;
    this.#finish();
  }

  /** Ends the stream when the worker has ended its side and has had all its answers. */
  #finish(): void {
    if (!this.#ended || this.#over || this.#settles > 0 || this.#leasing !== undefined) return;
    this.#close();
    this.call.end();
  }

  #fail(error: unknown): void {
    if (this.#over) return;
    this.#close();
    this.#leasing?.tell();
    this.call.emit('error', this.door.statusOf(error));
  }

  #close(): void {
    this.#over = true;
    this.#letOut?.();
    this.#letOut = undefined;
    this.#window.close();
    this.onOver();
  }
}

function creditsOf({ credits = 0 }: { readonly credits?: number }, field: string): number {
  if (credits < 0 || credits > MOST_CREDITS) throw invalidField(field, `must be an integer from 0 to ${MOST_CREDITS}`);
  return credits;
}
