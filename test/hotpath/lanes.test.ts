import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Lanes, type Stretch } from '../../src/hotpath/lanes.js';

const QUEUE = 1;

function take(lanes: Lanes, rows: Readonly<Record<number, { pos: number; rows: number }>>, filled = true): void {
  const taken = new Map(Object.entries(rows).map(([rank, row]) => [Number(rank), row]));
  lanes.learn(QUEUE, taken, filled);
}

function raise(lanes: Lanes): void {
  for (const { lane, top } of lanes.worthRaising()) lanes.raise(lane, top);
}

const covers = (stretches: readonly Stretch[], rank: number, pos: number): boolean =>
  stretches.some(
    ({ fromRank, fromPos, toRank }) => rank < toRank && (rank > fromRank || (rank === fromRank && pos > fromPos)),
  );

describe('where a claim begins', () => {
  it('is everywhere in a queue that nothing is known of', () => {
    const { stretches, shortened } = new Lanes().start(QUEUE);
    assert.equal(shortened, false);
    assert.ok(covers(stretches, -1_000, 1) && covers(stretches, 1_000, Number.MAX_SAFE_INTEGER));
  });

  it('leaves out what lies at or before the floors, and nothing else', () => {
    const lane = fc.record({ rank: fc.integer({ min: -1_000, max: 1_000 }), pos: fc.integer({ min: 1, max: 50 }) });
    fc.assert(
      fc.property(fc.uniqueArray(lane, { selector: ({ rank }) => rank, maxLength: 10 }), lane, (known, row) => {
        const lanes = new Lanes();
        for (const { rank, pos } of known) take(lanes, { [rank]: { pos, rows: 100 } }, false);
        raise(lanes);
        const stretches = lanes.fromFloors(QUEUE);
        const floor = known.find(({ rank }) => rank === row.rank)?.pos ?? 0;
        assert.equal(covers(stretches, row.rank, row.pos), row.pos > floor);
        assert.ok(covers(stretches, row.rank, 51), 'what comes later is always covered');
        assert.equal(
          new Set(stretches.map(({ fromRank }) => fromRank)).size,
          stretches.length,
          'no row is in two stretches',
        );
      }),
    );
  });

  it('is the cursor while claims get their fill, and the floor as soon as one does not', () => {
    const lanes = new Lanes();
    take(lanes, { 0: { pos: 100, rows: 10 } });
    // The first claim after a pause begins at the floors.
    assert.equal(covers(lanes.start(QUEUE).stretches, 0, 50), true);
    take(lanes, { 0: { pos: 200, rows: 10 } });
    const next = lanes.start(QUEUE);
    assert.deepEqual(
      [covers(next.stretches, 0, 150), covers(next.stretches, 0, 201), next.shortened],
      [false, true, true],
    );
    take(lanes, { 0: { pos: 210, rows: 1 } }, false);
    const last = lanes.start(QUEUE);
    assert.deepEqual([covers(last.stretches, 0, 50), last.shortened], [true, false]);
  });

  it('covers a better and a worse priority than the cursor’s', () => {
    const lanes = new Lanes();
    take(lanes, { 0: { pos: 100, rows: 10 } });
    lanes.start(QUEUE);
    take(lanes, { 0: { pos: 200, rows: 10 } });
    const { stretches, shortened } = lanes.start(QUEUE);
    assert.ok(shortened);
    for (const rank of [-5, 5]) assert.ok(covers(stretches, rank, 1));
  });

  it('is the floor again every 200 ms, though claims get their fill', async () => {
    const lanes = new Lanes();
    let pos = 0;
    const claim = (): boolean => {
      const { shortened } = lanes.start(QUEUE);
      take(lanes, { 0: { pos: (pos += 10), rows: 10 } });
      return shortened;
    };
    claim();
    const begun = performance.now();
    while (claim()) await new Promise((resolve) => setImmediate(resolve));
    // The first of these began at the floors: it is the first claim of all.
    while (claim()) await new Promise((resolve) => setImmediate(resolve));
    assert.ok(performance.now() - begun >= 190);
  });
});

describe('a floor', () => {
  it('is worth raising once a hundred rows are taken from its lane', () => {
    const lanes = new Lanes();
    take(lanes, { 0: { pos: 99, rows: 99 } });
    assert.equal(lanes.worthRaising().length, 0);
    take(lanes, { 0: { pos: 100, rows: 1 } });
    assert.deepEqual(
      lanes.worthRaising().map(({ top }) => top),
      [100],
    );
  });

  it('never falls, except when it had passed a row', () => {
    const lanes = new Lanes();
    take(lanes, { 0: { pos: 100, rows: 100 } });
    const { lane } = lanes.worthRaising()[0]!;
    lanes.raise(lane, 100);
    lanes.raise(lane, 50);
    assert.equal(covers(lanes.fromFloors(QUEUE), 0, 100), false);
    lanes.lower(lane, 60);
    assert.equal(covers(lanes.fromFloors(QUEUE), 0, 60), true);
    assert.equal(covers(lanes.fromFloors(QUEUE), 0, 59), false);
  });

  it('is swept from the beginning to its end each time it has risen', () => {
    const lanes = new Lanes();
    take(lanes, { 0: { pos: 100, rows: 100 } });
    raise(lanes);
    const [lane] = lanes.unswept();
    lanes.swept(lane!, 40);
    assert.equal(lanes.unswept()[0]!.swept, 40);
    lanes.swept(lane!, 100);
    assert.equal(lanes.unswept().length, 0);
    take(lanes, { 0: { pos: 300, rows: 200 } });
    raise(lanes);
    assert.equal(lanes.unswept()[0]!.swept, 0);
  });

  it('is forgotten with all others, and what was found out before then counts no more', () => {
    const lanes = new Lanes();
    take(lanes, { 0: { pos: 100, rows: 100 } });
    raise(lanes);
    const { generation } = lanes;
    lanes.forget();
    assert.notEqual(lanes.generation, generation);
    assert.ok(covers(lanes.start(QUEUE).stretches, 0, 1));
  });

  it('is kept for no more than 32 lanes of a queue', () => {
    const lanes = new Lanes();
    for (let rank = 0; rank < 100; rank += 1) take(lanes, { [rank]: { pos: 1_000, rows: 100 } });
    raise(lanes);
    assert.equal(lanes.fromFloors(QUEUE).length, 33);
  });
});
