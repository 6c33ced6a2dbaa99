import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Histogram } from '../loadtest/bench/histogram.js';
import { type Report, type RunOptions, runBench } from '../loadtest/bench/run.js';
import { QUICK, withSeconds } from '../loadtest/bench/scale.js';
import { scrapedQuantile } from '../loadtest/bench/scrape.js';
import { median, trend } from '../loadtest/bench/statistics.js';

const MEASUREMENTS = [
  'enqueue, single calls',
  'lease, single calls',
  'ack, single calls',
  'enqueue, batches of 100',
  'lease, batches of 100',
  'ack, batches of 100',
  'full cycle over HTTP',
  'bare SQL cycle, batches of 100',
  'full cycle over HTTP to bare SQL cycle',
  'bare SQL cycle, batches of 500',
  'pick-up latency p50 at 500 jobs/s, 50 parked workers',
  'pick-up latency p99 at 500 jobs/s, 50 parked workers',
  'from before the enqueue, p50',
  'from before the enqueue, p99',
  'jobs picked up',
  'database calls per job',
  'WAL per job',
];

async function run(options: Partial<RunOptions>): Promise<{ report: Report; written: string; said: string[] }> {
  const directory = await mkdtemp(path.join(tmpdir(), 'stint-bench-test-'));
  const json = path.join(directory, 'bench.json');
  const said: string[] = [];
  try {
    const report = await runBench({
      modes: ['table'],
      scale: { ...withSeconds(QUICK, 0.5), connections: [2] },
      json,
      print: (text) => said.push(text),
      say: () => undefined,
      ...options,
    });
    return { report, said, written: await readFile(json, 'utf8') };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

describe('the load harness', () => {
  it('measures everything of its first table, prints it and writes it down', { timeout: 120_000 }, async () => {
    const { report, said, written } = await run({});
    assert.deepEqual(JSON.parse(written), JSON.parse(JSON.stringify(report)));
    const [table] = report.tables;
    const names = table!.rows.map(({ measurement }) => measurement);
    assert.deepEqual(names.slice(0, MEASUREMENTS.length), MEASUREMENTS);
    for (const { measurement, value } of table!.rows) {
      assert.ok(Number.isFinite(value) && value > 0, `${measurement}: ${value}`);
      assert.ok(said.join('\n').includes(measurement), `${measurement} is printed`);
    }
    assert.equal(report.postgres['fsync'], 'on');
    assert.equal(report.machine.node, process.version);
  });

  it('refuses a mode it does not have, before it starts anything', async () => {
    await assert.rejects(run({ modes: ['table', 'no-such-mode'] }), /no such mode: no-such-mode/);
  });

  it('ends at once when it is told to', { timeout: 60_000 }, async () => {
    await assert.rejects(run({ signal: AbortSignal.abort() }), /ended before its time/);
  });
});

describe('what the load harness computes', () => {
  it('quantiles lie within 2 % of the recorded values, also of merged histograms', () => {
    const milliseconds = fc.double({ min: 0.02, max: 100_000, noNaN: true });
    fc.assert(
      fc.property(fc.array(milliseconds, { minLength: 1 }), fc.double({ min: 0, max: 1, noNaN: true }), (values, q) => {
        const histogram = new Histogram();
        const [first, second] = [new Histogram(), new Histogram()];
        values.forEach((value, index) => (index % 2 === 0 ? first : second).record(value));
        histogram.merge(first.toBuckets());
        histogram.merge(second.toBuckets());
        const exact = values.toSorted((a, b) => a - b)[Math.max(0, Math.ceil(q * values.length) - 1)]!;
        const found = histogram.quantile(q);
        assert.ok(found >= exact * 0.999 && found <= exact * 1.021, `${found} for ${exact}`);
      }),
    );
  });

  it('the trend of a line is its slope, without error; noise has an error', () => {
    const line = trend([3, 5, 7, 9]);
    assert.ok(Math.abs(line.slope - 2) < 1e-9 && line.error < 1e-9);
    const noise = trend([1, -1, 1, -1, 1]);
    assert.ok(Math.abs(noise.slope) < noise.error);
  });

  it('the median of an even number of values is the mean of the middle two', () => {
    assert.equal(median([4, 1, 3, 2]), 2.5);
    assert.equal(median([9, 1, 5]), 5);
  });

  it('a scraped quantile is of what came between the two scrapes, of the labels asked for', () => {
    const scrape = (low: number, high: number): string =>
      ['a', 'b']
        .flatMap((task) => [
          `t_bucket{le="0.1",task="${task}"} ${low}`,
          `t_bucket{le="1",task="${task}"} ${high}`,
          `t_bucket{le="+Inf",task="${task}"} ${high}`,
        ])
        .join('\n');
    const scrapes = { before: scrape(10, 10), after: scrape(10, 14) };
    assert.equal(scrapedQuantile(scrapes, { name: 't', label: 'task="a"' }, 0.5), 1);
    const none = { before: scrapes.before, after: scrapes.before };
    assert.ok(Number.isNaN(scrapedQuantile(none, { name: 't', label: 'task="a"' }, 0.5)));
  });
});
