import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Departure } from '../../src/core/departure.js';
import type { ClaimKind } from '../../src/hotpath/claim-kind.js';
import { Lanes } from '../../src/hotpath/lanes.js';
import type { KnownQueue, QueueDirectory } from '../../src/hotpath/queue-directory.js';
import type { Round } from '../../src/hotpath/round.js';
import { Waiters } from '../../src/hotpath/waiters.js';
import { createLog } from '../../src/observability/log.js';
import { createMetrics } from '../../src/observability/metrics.js';

const QUEUE: KnownQueue = {
  id: 1,
  tenantId: 't',
  name: 'q',
  maxPayloadBytes: null,
  idempotencyWindow: 1,
  limited: false,
  rateInterval: null,
};

/** A queue in memory, claimed from in two steps as the database does it: what is there is looked at, later the answer comes. */
class Shelf {
  jobs = 0;
  claims = 0;
  private answers: (() => void)[] = [];

  readonly kind: ClaimKind<string> = {
    claim: (_, round) => this.claim(round),
    giveBack: () => Promise.resolve(),
  };

  get open(): number {
    return this.answers.length;
  }

  /** Lets the oldest claim answer. */
  answer(): void {
    this.answers.shift()?.();
  }

  private async claim(round: Round): ReturnType<ClaimKind<string>['claim']> {
    this.claims += 1;
    const [queue] = round.queues;
    const taken = Math.min(this.jobs, queue!.limit);
    this.jobs -= taken;
    await new Promise<void>((resolve) => this.answers.push(resolve));
    const jobs = Array.from({ length: taken }, (_, row) => ({
      waiter: round.slotWaiter[queue!.offset + row]!,
      queueId: 1,
      job: 'job',
    }));
    return {
      jobs,
      waits: [],
      taken: new Map(taken === 0 ? [] : [[1, new Map([[0, { pos: this.claims, rows: taken }]])]]),
      found: new Map([[1, taken]]),
    };
  }
}

interface Bench {
  readonly shelf: Shelf;
  readonly waiters: Waiters;
  readonly lease: (wait?: number, departure?: Departure, maxJobs?: number) => Promise<string[]>;
}

function bench(): Bench {
  const shelf = new Shelf();
  const queues = {
    known: () => undefined,
    find: () => Promise.resolve(QUEUE),
    limits: () => QUEUE,
  } as unknown as QueueDirectory;
  const waiters = new Waiters({
    connections: undefined as never,
    repairs: undefined as never,
    queues,
    lanes: new Lanes(),
    maxParked: 100,
    metrics: createMetrics(),
    log: createLog('silent'),
  });
  const lease: Bench['lease'] = (wait = 30_000, departure = new Departure(), maxJobs = 1) =>
    waiters.lease(shelf.kind, {
      tenantId: 't',
      queues: [{ name: 'q', weight: 1 }],
      maxJobs,
      wait,
      visibilityTimeout: undefined,
      worker: undefined,
      departure,
      park: () => () => undefined,
      idled: () => undefined,
    });
  return { shelf, waiters, lease };
}

async function turn(): Promise<void> {
  for (let n = 0; n < 3; n += 1) await new Promise((resolve) => setImmediate(resolve));
}

const isSettled = (promise: Promise<unknown>): Promise<boolean> =>
  Promise.race([promise.then(() => true), turn().then(() => false)]);

describe('parked leases', () => {
  it('are woken by a word that comes while a claim finds nothing', async () => {
    const { shelf, waiters, lease } = bench();
    const parked = lease();
    await turn();
    assert.equal(shelf.open, 1, 'it has looked and found nothing, but does not know yet');
    shelf.jobs += 1;
    waiters.ready([1]);
    shelf.answer();
    await turn();
    shelf.answer();
    assert.deepEqual(await parked, ['job']);
    await waiters.close();
  });

  it('do not look again and again at an empty queue', async () => {
    const { shelf, waiters, lease } = bench();
    const parked = lease();
    await turn();
    shelf.answer();
    for (let n = 0; n < 20; n += 1) await turn();
    assert.equal(shelf.claims, 1);
    await waiters.close();
    assert.deepEqual(await parked, []);
  });

  it('believe no poll that began before a word of work', async () => {
    const { shelf, waiters, lease } = bench();
    const first = lease();
    await turn();
    shelf.answer();
    await turn();
    const begun = waiters.version();
    shelf.jobs += 1;
    waiters.ready([1]);
    waiters.polled([1], [], begun);
    await turn();
    shelf.answer();
    assert.deepEqual(await first, ['job']);
    await waiters.close();
  });

  it('with wait 0 look at the database, whatever is believed', async () => {
    const { shelf, waiters, lease } = bench();
    waiters.polled([1], [], waiters.version());
    shelf.jobs = 1;
    const given = lease(0);
    await turn();
    shelf.answer();
    assert.deepEqual(await given, ['job']);
    await waiters.close();
  });

  it('of callers that are gone take nothing', async () => {
    const { shelf, waiters, lease } = bench();
    const caller = new Departure();
    const gone = lease(30_000, caller);
    await turn();
    shelf.answer();
    await turn();
    caller.tell();
    assert.deepEqual(await gone, []);
    shelf.jobs = 1;
    waiters.ready([1]);
    await turn();
    assert.equal(shelf.claims, 1);
    assert.equal(waiters.size, 0);
    await waiters.close();
  });

  it('leave no job lying while somebody waits, however words, claims and answers interleave', async () => {
    const step = fc.constantFrom('enqueue', 'enqueue', 'answer', 'answer', 'answer', 'lease', 'turn', 'poll');
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 60 }), async (steps) => {
        const { shelf, waiters, lease } = bench();
        const leases: Promise<string[]>[] = [];
        for (const one of steps) {
          if (one === 'enqueue') {
            // Committed, and its word comes after that.
            shelf.jobs += 1;
            waiters.ready([1]);
          } else if (one === 'answer') {
            shelf.answer();
          } else if (one === 'lease') {
            leases.push(lease());
          } else if (one === 'poll') {
            const [begun, found] = [waiters.version(), shelf.jobs > 0];
            waiters.polled([1], found ? [1] : [], begun);
          } else {
            await turn();
          }
        }
        for (let n = 0; n < 200 && (shelf.open > 0 || n < 4); n += 1) {
          await turn();
          shelf.answer();
        }
        await turn();
        assert.equal(shelf.open, 0, 'it comes to rest');
        const enqueued = steps.filter((one) => one === 'enqueue').length;
        const served = Math.min(enqueued, leases.length);
        const settled = await Promise.all(leases.map(isSettled));
        assert.equal(settled.filter(Boolean).length, served);
        assert.equal(shelf.jobs, enqueued - served);
        await waiters.close();
      }),
      { numRuns: 300 },
    );
  });
});
