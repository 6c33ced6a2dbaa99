import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PLANTS, REWRITES } from '../loadtest/faults/plants.js';
import { runSeed } from '../loadtest/faults/run.js';
import { FAULTS, scheduleOf } from '../loadtest/faults/schedule.js';

const ROOT = new URL('../../', import.meta.url);

describe('the fault schedule', () => {
  it('is the same for the same seed, lies within its time, and always kills a service and Postgres', () => {
    const options = {
      seed: fc.nat(),
      seconds: fc.integer({ min: 5, max: 60 }),
      count: fc.integer({ min: 2, max: 40 }),
    };
    fc.assert(
      fc.property(fc.record(options), (given) => {
        const schedule = scheduleOf({ ...given, workers: 8 });
        assert.deepEqual(scheduleOf({ ...given, workers: 8 }), schedule);
        assert.equal(schedule.length, given.count);
        const kinds = schedule.map(({ kind }) => kind);
        assert.ok(kinds.includes('kill-service') && kinds.includes('kill-postgres'));
        const times = schedule.map(({ at }) => at);
        assert.deepEqual(
          times,
          times.toSorted((a, b) => a - b),
        );
        assert.ok(times.every((at) => at >= 0 && at <= given.seconds * 1_000));
      }),
    );
  });

  it('has every kind of fault within a few seeds', () => {
    const seen = new Set(
      [1, 2, 3, 4, 5].flatMap((seed) =>
        scheduleOf({ seed, seconds: 40, count: 12, workers: 8 }).map(({ kind }) => kind),
      ),
    );
    assert.deepEqual(
      FAULTS.filter((kind) => !seen.has(kind)),
      [],
    );
  });
});

describe('planted faults', () => {
  const sources = ['jobs/ack', 'jobs/hand-back', 'jobs/heartbeat', 'jobs/enqueue-flush', 'tasks/return-expired']
    .map((file) => readFileSync(new URL(`src/${file}.ts`, ROOT), 'utf8'))
    .join('\n');

  for (const plant of PLANTS) {
    it(`«${plant}» finds what it changes in the statements of today`, () => {
      for (const { name, rewrite } of REWRITES[plant]) {
        const text = new RegExp(`name: '${name}',\\s+text: \`([^\`]*)\``).exec(sources)?.[1];
        assert.ok(text !== undefined, `there is a statement ${name}`);
        assert.notEqual(rewrite(text), '');
        assert.throws(() => rewrite('select 1'), /out of date/);
      }
    });
  }
});

describe('a short run of the harness', () => {
  it(
    'holds every rule through kill -9 of a service and of Postgres, and four faults more',
    { timeout: 120_000 },
    async () => {
      const said: string[] = [];
      const result = await runSeed({
        seed: 7,
        seconds: 8,
        faults: 6,
        jobs: 1_500,
        workers: 4,
        recoverySeconds: 4,
        calmSeconds: 1.5,
        // Other tests share the machine: the promised second is held to in `npm run faults`.
        promptSeconds: 5,
        say: (line) => said.push(line),
      });
      assert.deepEqual(result.breaches, []);
      assert.equal(result.faults.length, 6);
      assert.ok(result.accepted > 1_000, `${result.accepted} jobs were accepted`);
      assert.ok(result.acked + result.dead >= result.accepted);
      assert.ok(result.redelivered > 0, 'some jobs were delivered again');
      assert.ok(result.probes > 0, 'promises were put to the test');
      assert.ok(result.boundProbes > 0, 'the queue with a bound was looked at');
      assert.ok(result.intrusionsRefused > 0, 'another tenant was refused');
      assert.ok(said.some((line) => line.includes('kill-postgres')));
    },
  );
});
