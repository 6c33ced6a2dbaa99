import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ServiceError } from '../../src/errors.js';
import { Batcher, type BatchKind } from '../../src/hotpath/batcher.js';
import { createLog } from '../../src/observability/log.js';
import { createMetrics } from '../../src/observability/metrics.js';

interface Item {
  readonly tenantId: string;
  readonly name: string;
}

interface Flush {
  readonly items: readonly Item[];
  readonly repeated: boolean;
  /** Lets it end: well, unless an error is given. */
  finish(error?: Error): void;
}

interface Bench {
  readonly batcher: Batcher<Item, string>;
  /** Those that have begun, in order. */
  readonly flushes: Flush[];
  readonly submit: (
    tenantId: string,
    name: string,
    options?: { rows?: number; bytes?: number; keys?: string[] },
  ) => Promise<string>;
}

function bench(overrides: Partial<BatchKind<Item, string>> = {}, maxWaiting = 1_000): Bench {
  const flushes: Flush[] = [];
  const kind: BatchKind<Item, string> = {
    name: 'test',
    connections: 'enqueue',
    maxRows: 100,
    maxBytes: 1_000,
    maxFlushes: 1,
    flush: (_, items, repeated) =>
      new Promise((resolve, reject) => {
        const finish = (error?: Error): void => {
          if (error === undefined) resolve(items.map(({ name }) => `done ${name}`));
          else reject(error);
        };
        flushes.push({ items, repeated, finish });
      }),
    ...overrides,
  };
  const parts = { connections: undefined as never, maxWaiting, metrics: createMetrics(), log: createLog('silent') };
  const batcher = new Batcher(kind, parts);
  const submit: Bench['submit'] = (tenantId, name, { rows = 1, bytes = 1, keys = [] } = {}) =>
    batcher.submit({ tenantId, item: { tenantId, name }, rows, bytes, keys });
  return { batcher, flushes, submit };
}

const names = ({ items }: Flush): string => items.map(({ name }) => name).join(' ');

/** One turn of the event loop, and what it brings about. */
async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
  await new Promise((resolve) => setImmediate(resolve));
}

function isUnavailable(error: unknown): boolean {
  return error instanceof ServiceError && error.code === 'UNAVAILABLE';
}

const connectionLost = (): Error =>
  Object.assign(new Error('Connection terminated unexpectedly'), { code: 'ECONNRESET' });

describe('a batcher', () => {
  it('starts a flush at the end of the turn, with all that was submitted in it and no timer', async () => {
    const { flushes, submit } = bench();
    const results = [submit('t', 'a'), submit('t', 'b'), submit('u', 'c')];
    assert.equal(flushes.length, 0);
    await turn();
    assert.equal(flushes.map(names).join('|'), 'a c b');
    flushes[0]!.finish();
    assert.deepEqual(await Promise.all(results), ['done a', 'done b', 'done c']);
  });

  it('gathers what arrives while a flush runs into the next one', async () => {
    const { flushes, submit } = bench();
    const all = [submit('t', 'a')];
    await turn();
    for (const name of ['b', 'c', 'd']) {
      all.push(submit('t', name));
      await turn();
    }
    assert.equal(flushes.length, 1, 'one at a time');
    flushes[0]!.finish();
    await turn();
    assert.deepEqual(flushes.map(names), ['a', 'b c d']);
    flushes[1]!.finish();
    await Promise.all(all);
  });

  it('runs as many flushes at once as the kind allows, and no more', async () => {
    const { flushes, submit } = bench({ maxFlushes: 2, maxRows: 1 });
    const all = ['a', 'b', 'c'].map((name) => submit('t', name));
    await turn();
    await turn();
    assert.deepEqual(flushes.map(names), ['a', 'b']);
    flushes[0]!.finish();
    await turn();
    assert.deepEqual(flushes.map(names), ['a', 'b', 'c']);
    for (const flush of flushes.slice(1)) flush.finish();
    await Promise.all(all);
  });

  it('takes from tenants in turn, so that one with much waiting does not hold up one with little', async () => {
    const { flushes, submit } = bench({ maxRows: 4 });
    const all = Array.from({ length: 10 }, (_, n) => submit('flood', `f${n}`));
    all.push(submit('small', 's0'), submit('other', 'o0'));
    await turn();
    assert.equal(names(flushes[0]!), 'f0 s0 o0 f1');
    for (let n = 0; n < flushes.length; n += 1) {
      flushes[n]!.finish();
      await turn();
    }
    await Promise.all(all);
    const order = flushes.flatMap(({ items }) => items.map(({ name }) => name)).filter((name) => name.startsWith('f'));
    assert.deepEqual(
      order,
      Array.from({ length: 10 }, (_, n) => `f${n}`),
      'within a tenant the order is kept',
    );
  });

  it('bounds a flush in rows and in bytes, but never below one submission', async () => {
    const { flushes, submit } = bench({ maxRows: 10, maxBytes: 100 });
    const all = [
      submit('t', 'huge', { rows: 50, bytes: 5_000 }),
      submit('t', 'rows', { rows: 6 }),
      submit('t', 'more-rows', { rows: 6 }),
      submit('t', 'bytes', { bytes: 60 }),
      submit('t', 'more-bytes', { bytes: 60 }),
    ];
    for (let n = 0; n < 5; n += 1) {
      await turn();
      flushes[n]?.finish();
    }
    await Promise.all(all);
    assert.deepEqual(flushes.map(names), ['huge', 'rows', 'more-rows bytes', 'more-bytes']);
  });

  it('holds a key once in a flush; the second waits for the next, and behind it all of its tenant’s', async () => {
    const { flushes, submit } = bench();
    const all = [
      submit('t', 'first', { keys: ['k'] }),
      submit('t', 'second', { keys: ['k'] }),
      submit('t', 'behind'),
      submit('u', 'elsewhere', { keys: ['l'] }),
    ];
    await turn();
    flushes[0]!.finish();
    await turn();
    flushes[1]!.finish();
    await Promise.all(all);
    assert.deepEqual(flushes.map(names), ['first elsewhere', 'second behind']);
  });

  it('finds the one submission that the database refuses, fails it alone, and carries out the others once', async () => {
    const carriedOut: string[] = [];
    const { submit } = bench({
      flush: (_, items) => {
        if (items.some(({ name }) => name === 'bad')) return Promise.reject(new Error('violates a constraint'));
        carriedOut.push(...items.map(({ name }) => name));
        return Promise.resolve(items.map(({ name }) => `done ${name}`));
      },
    });
    const given = ['a', 'b', 'c', 'bad', 'd', 'e', 'f'];
    const results = await Promise.allSettled(given.map((name) => submit('t', name)));
    const told = results.map((result) => (result.status === 'fulfilled' ? result.value : 'refused'));
    assert.deepEqual(
      told,
      given.map((name) => (name === 'bad' ? 'refused' : `done ${name}`)),
    );
    assert.deepEqual(carriedOut.sort(), given.filter((name) => name !== 'bad').sort());
  });

  it('gives an error that a flush returns to the submission it belongs to', async () => {
    const { submit } = bench({
      flush: (_, items) => Promise.resolve(items.map(({ name }) => (name === 'b' ? new Error('not b') : name))),
    });
    const results = await Promise.allSettled(['a', 'b', 'c'].map((name) => submit('t', name)));
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
  });

  it('repeats a flush whose connection died, saying so, and whole', async () => {
    const { flushes, submit } = bench();
    const all = [submit('t', 'a'), submit('t', 'b')];
    await turn();
    flushes[0]!.finish(connectionLost());
    while (flushes.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(names(flushes[1]!), 'a b');
    assert.deepEqual(
      flushes.map(({ repeated }) => repeated),
      [false, true],
    );
    flushes[1]!.finish();
    assert.deepEqual(await Promise.all(all), ['done a', 'done b']);
  });

  it('says that halves of a repeated flush are repetitions too', async () => {
    const seen: string[] = [];
    let calls = 0;
    const { submit } = bench({
      flush: (_, items, repeated) => {
        calls += 1;
        seen.push(`${items.map(({ name }) => name).join(' ')} ${repeated}`);
        if (calls === 1) return Promise.reject(connectionLost());
        if (items.some(({ name }) => name === 'bad')) return Promise.reject(new Error('violates a constraint'));
        return Promise.resolve(items.map(({ name }) => name));
      },
    });
    await Promise.allSettled([submit('t', 'a'), submit('t', 'bad')]);
    assert.deepEqual(seen, ['a bad false', 'a bad true', 'a true', 'bad true']);
  });

  it('refuses with UNAVAILABLE, at once, what would wait beyond its bound; what waits already is carried out', async () => {
    const { flushes, submit } = bench({}, 10);
    const all = [submit('t', 'running')];
    await turn();
    all.push(submit('t', 'waiting', { rows: 9 }));
    await assert.rejects(submit('u', 'too-much', { rows: 2 }), isUnavailable);
    all.push(submit('u', 'fits', { rows: 1 }));
    flushes[0]!.finish();
    await turn();
    flushes[1]!.finish();
    assert.deepEqual(await Promise.all(all), ['done running', 'done waiting', 'done fits']);
    const again = submit('u', 'again');
    await turn();
    flushes[2]!.finish();
    assert.equal(await again, 'done again', 'there is room again');
  });

  for (const rows of [1, 20]) {
    it(`leaves one tenant no more than half of the waiting room, in submissions of ${rows} rows`, async () => {
      const { flushes, submit } = bench({}, 200);
      const running = submit('flood', 'running');
      await turn();
      const flood = Promise.allSettled(Array.from({ length: 200 }, (_, n) => submit('flood', `f${n}`, { rows })));
      const others = ['o1', 'o2'].map((name) => submit(name, name, { rows: 50 }));
      for (let n = 0; n < 8; n += 1) {
        flushes[n]?.finish();
        await turn();
      }
      assert.equal(await running, 'done running');
      assert.deepEqual(await Promise.all(others), ['done o1', 'done o2']);
      const taken = (await flood).filter(({ status }) => status === 'fulfilled').length;
      assert.equal(taken * rows, 100);
    });
  }

  it('is idle when nothing waits and nothing runs, also after failures', async () => {
    const { batcher, flushes, submit } = bench({ maxRows: 1 });
    await batcher.idle();
    const all = Promise.allSettled([submit('t', 'a'), submit('t', 'b')]);
    let idle = false;
    const waited = batcher.idle().then(() => (idle = true));
    await turn();
    flushes[0]!.finish(new Error('refused'));
    await turn();
    assert.equal(idle, false, 'the second is still to come');
    flushes[1]!.finish();
    await waited;
    await all;
    assert.equal(flushes.length, 2);
  });
});
