import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Watch, type Watched, Watches } from '../../src/hotpath/watches.js';

const LONG_MS = 20_000;
const NOT_TOLD = 'not told';

const watching = (queueIds: readonly number[], more: Partial<Watched> = {}): Watched => ({
  queueIds: new Set(queueIds),
  lacking: false,
  forReady: true,
  ...more,
});

/** Looks, finds, and waits: whether it is told, within the time in which news is gathered and a little more. */
async function told(watch: Watch, watched: Watched, act: () => void): Promise<boolean> {
  watch.look();
  const news = watch.news(watched, LONG_MS).then(() => 'told');
  act();
  const outcome = await Promise.race([news, pause(500)]);
  watch.tell();
  await news;
  return outcome !== NOT_TOLD;
}

function pause(milliseconds: number): Promise<string> {
  return new Promise((resolve) => setTimeout(() => resolve(NOT_TOLD), milliseconds));
}

/** With one watch, ended afterwards so that no timer is left. */
async function withWatch(run: (watches: Watches, watch: Watch) => Promise<void>): Promise<void> {
  const watches = new Watches();
  const watch = watches.begin();
  try {
    await run(watches, watch);
  } finally {
    watch.end();
  }
}

describe('whoever watches queues', () => {
  it('is told of jobs in them and of changes of them, and of no others', () =>
    withWatch(async (watches, watch) => {
      const own = watching([7]);
      assert.equal(await told(watch, own, () => watches.ready([3, 7])), true);
      assert.equal(await told(watch, own, () => watches.changed([7])), true);
      assert.equal(await told(watch, own, () => watches.ready('all')), true);
      assert.equal(await told(watch, own, () => watches.changed('all')), true);
      assert.equal(await told(watch, own, () => watches.ready([3])), false);
      assert.equal(await told(watch, own, () => watches.changed([3])), false);
    }));

  it('and has what it waits for is told of changes alone', () =>
    withWatch(async (watches, watch) => {
      const own = watching([7], { forReady: false });
      assert.equal(await told(watch, own, () => watches.ready([7])), false);
      assert.equal(await told(watch, own, () => watches.ready('all')), false);
      assert.equal(await told(watch, own, () => watches.changed([7])), true);
    }));

  it('and lacks one is told of every change, and of the first jobs of each queue', () =>
    withWatch(async (watches, watch) => {
      const own = watching([], { lacking: true });
      assert.equal(await told(watch, own, () => watches.ready([3])), true);
      assert.equal(await told(watch, own, () => watches.ready([3])), false);
      assert.equal(await told(watch, own, () => watches.ready([3, 4])), true);
      assert.equal(await told(watch, own, () => watches.changed([3])), true);
    }));

  it('misses nothing that comes while it looks, the first look too', () =>
    withWatch(async (watches, watch) => {
      watch.look();
      watches.ready([9]);
      await pause(50);
      const began = performance.now();
      await watch.news(watching([9]), LONG_MS);
      watch.look();
      watches.ready([9]);
      await watch.news(watching([9]), LONG_MS);
      assert.ok(performance.now() - began < 1_000);
    }));

  it('waits no longer than it wants to', () =>
    withWatch(async (_watches, watch) => {
      watch.look();
      const began = performance.now();
      await watch.news(watching([7]), 50);
      assert.ok(performance.now() - began < 1_000);
    }));

  it('is told in one turn with the others, and not more often than every 200 ms', () =>
    withWatch(async (watches, watch) => {
      const other = watches.begin();
      const times: [number, number] = [0, 0];
      const until = performance.now() + 1_000;
      const count = async (which: 0 | 1, one: Watch): Promise<void> => {
        while (performance.now() < until) {
          one.look();
          await one.news(watching([7]), LONG_MS);
          times[which] += 1;
        }
      };
      const flood = setInterval(() => watches.ready([7]), 1);
      await Promise.all([count(0, watch), count(1, other)]);
      clearInterval(flood);
      other.end();
      assert.ok(times[0] >= 3 && times[0] <= 7, `${times[0]} times in a second`);
      assert.ok(Math.abs(times[0] - times[1]) <= 1, times.join());
    }));
});
