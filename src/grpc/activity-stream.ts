import type { ServerWritableStream } from '@grpc/grpc-js';
import { Departure } from '../core/departure.js';
import { ServiceError } from '../errors.js';
import type { FailedStatus } from './status.js';

/** What the stream asks of the door. */
export interface ActivityDoor {
  /** Lets the caller in, and answers what lets it out again; `end` is told when its credential ends. */
  open(end: (error: ServiceError) => void): Promise<() => void>;
  /** Whether there is work, once that is other than `last`, or after a while. */
  look(last: boolean | undefined, departure: Departure): Promise<boolean>;
  statusOf(error: unknown): FailedStatus;
}

export type ActivityCall = Pick<ServerWritableStream<unknown, object>, 'write' | 'end' | 'emit' | 'on'>;

/** One StreamIsActive: says whether there is work, and says it again whenever it has changed. */
export class ActivityStream {
  readonly #departure = new Departure();
  #letOut: (() => void) | undefined;
  #over = false;

  constructor(
    private readonly call: ActivityCall,
    private readonly door: ActivityDoor,
    private readonly onOver: () => void,
  ) {
    call.on('error', () => this.broken());
  }

  async run(): Promise<void> {
    try {
      const letOut = await this.door.open((error) => this.fail(error));
      if (this.#isOver()) return letOut();
      this.#letOut = letOut;
      let last: boolean | undefined;
      for (;;) {
        const active = await this.door.look(last, this.#departure);
        if (this.#isOver()) return;
        if (active !== last) this.call.write({ result: active });
        last = active;
      }
    } catch (error) {
      this.fail(error);
    }
  }

  /** Ends it well, so that its caller comes back soon: KEDA waits longer after each failure. */
  drain(): void {
    if (!this.#close()) return;
    this.call.end();
  }

  /** The caller is gone. */
  broken(): void {
    this.#close();
  }

  fail(error: unknown): void {
    if (!this.#close()) return;
    this.call.emit('error', this.door.statusOf(error));
  }

  #isOver(): boolean {
    return this.#over;
  }

  #close(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#letOut?.();
    this.onOver();
    this.#departure.tell();
    return true;
  }
}
