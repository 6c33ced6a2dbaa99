import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { MISFIRES, MOST_MADE_UP, ON_TIME_MICROS, OVERLAPS, planFires } from '../../src/schedules/plan-fires.js';
import { instantsOf } from '../../src/schedules/timing.js';

const SECOND = 1_000_000;
const START = Date.parse('2026-01-01T00:00:00Z') * 1_000;

const every = (seconds: number, endAt?: number) =>
  instantsOf({ every: seconds * 1_000, timeZone: 'UTC', anchor: START, endAt });

const situations = fc.record({
  step: fc.integer({ min: 1, max: 200 }),
  late: fc.integer({ min: 0, max: 20_000 }),
  ending: fc.option(fc.integer({ min: 1, max: 20_000 }), { nil: undefined }),
  misfire: fc.constantFrom(...MISFIRES),
  overlap: fc.constantFrom(...OVERLAPS),
  isRunning: fc.boolean(),
});

test('each instant up to now fires, is missed or is skipped, none twice, and what is next lies after now', () => {
  fc.assert(
    fc.property(situations, ({ step, late, ending, misfire, overlap, isRunning }) => {
      const instants = every(step, ending === undefined ? undefined : START + ending * SECOND);
      const now = START + late * SECOND;
      const { fires, missed, skipped, next } = planFires({ instants, from: START, misfire, overlap, isRunning }, now);
      const all = Math.floor(Math.min(late, (ending ?? Infinity) - 1) / step) + 1;
      if (all <= 1_000) assert.equal(fires.length + missed + skipped, all);
      assert.deepEqual(
        fires,
        [...new Set(fires)].sort((a, b) => a - b),
      );
      for (const at of fires) assert.ok(at >= START && at <= now && (at - START) % (step * SECOND) === 0);
      assert.ok(next === undefined || next > now);
      assert.equal(next, instants(now));
      assert.ok(fires.length <= MOST_MADE_UP);
      if (overlap === 'skip') assert.ok(fires.length <= (isRunning ? 0 : 1));
      if (late * SECOND <= ON_TIME_MICROS) return assert.equal(missed, 0);
      if (misfire === 'skip') for (const at of fires) assert.ok(at >= now - ON_TIME_MICROS);
      if (overlap === 'skip') return;
      if (misfire === 'once') assert.equal(fires.length, 1);
      if (misfire !== 'skip') assert.equal(fires.at(-1), START + (all - 1) * step * SECOND, 'the latest');
    }),
  );
});

test('the latest hundred are found whatever lies before them, also where they come in bursts', () => {
  for (const cron of ['* * * * * *', '* * * * *', '0 0 * * *', '* * * 1 1 *', '0 0 1 1 *']) {
    const instants = instantsOf({ cron, timeZone: 'Europe/Kyiv', anchor: 0 });
    const from = instants(Date.parse('2020-06-01T00:00:00Z') * 1_000)!;
    const now = Date.parse('2026-01-03T12:00:00Z') * 1_000;
    const due = { instants, from, misfire: 'all', overlap: 'allow', isRunning: false } as const;
    const began = performance.now();
    const { fires, next } = planFires(due, now);
    assert.ok(performance.now() - began < 3_000, `${cron}: ${performance.now() - began} ms`);
    assert.ok(fires.length === MOST_MADE_UP || fires[0] === from, `${cron}: ${fires.length}`);
    for (let n = 1; n < fires.length; n += 1) assert.equal(instants(fires[n - 1]!), fires[n]);
    assert.equal(instants(fires.at(-1)!), next, cron);
  }
});
