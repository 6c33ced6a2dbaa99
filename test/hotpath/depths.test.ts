import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Depths } from '../../src/hotpath/depths.js';

const of = (name: string, more: { tenantId?: string; aged?: boolean } = {}) => ({
  tenantId: 'a',
  name,
  aged: false,
  ...more,
});

/** Depths over a database that answers with the number of the statement, or fails. */
function counted(fails: () => boolean = () => false) {
  const sent: string[][] = [];
  const query = (_statement: unknown, [tenants, names]: unknown[] = []): Promise<any[]> => {
    if (fails()) return Promise.reject(new Error('away'));
    sent.push((names as string[]).map((name, index) => `${(tenants as string[])[index]} ${name}`));
    const waiting = sent.length;
    return Promise.resolve([{ place: 1, queueId: 1, waiting, leased: 0, oldestAge: 0 }]);
  };
  return { depths: new Depths({ query } as never), sent };
}

describe('depths', () => {
  it('that are asked for in one turn are read by one statement, each once', async () => {
    const { depths, sent } = counted();
    const asked = [of('x'), of('x'), of('y'), of('x', { tenantId: 'b' })];
    const [first, same, missing, other] = await Promise.all(asked.map((one) => depths.now(one)));
    assert.deepEqual(sent, [['a x', 'a y', 'b x']]);
    assert.equal(first!.waiting, 1);
    assert.equal(same, first);
    for (const none of [missing, other]) {
      assert.deepEqual(none, { queueId: undefined, waiting: 0, leased: 0, oldestAge: 0 });
    }
  });

  it('that may be a second old are shared, of one tenant, queue and kind; those of this moment are not', async () => {
    const { depths, sent } = counted();
    await depths.recent(of('x'));
    assert.equal((await depths.recent(of('x'))).waiting, 1);
    assert.equal((await depths.now(of('x'))).waiting, 2);
    assert.equal((await depths.recent(of('x'))).waiting, 2, 'the newest is kept');
    await depths.recent(of('x', { tenantId: 'b' }));
    await depths.recent(of('x', { aged: true }));
    assert.equal(sent.length, 4);
    await new Promise((resolve) => setTimeout(resolve, 1_050));
    await depths.recent(of('x'));
    assert.equal(sent.length, 5);
  });

  it('that could not be read are not remembered', async () => {
    let away = true;
    const { depths } = counted(() => away);
    await assert.rejects(depths.recent(of('x')), /away/);
    away = false;
    assert.equal((await depths.recent(of('x'))).waiting, 1);
  });
});
