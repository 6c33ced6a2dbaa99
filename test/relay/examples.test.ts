import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { after, before, describe, it } from 'node:test';
import { runProgram, runScript } from '../helpers/service-process.js';
import { createRelayRoom, type RelayRoom } from './room.js';

const EXAMPLES = new URL('../../../examples/outbox/', import.meta.url);
const withoutPsycopg = spawnSync('python3', ['-c', 'import psycopg']).status !== 0 && 'psycopg is not installed';

describe('the examples of an outbox', () => {
  let room: RelayRoom;

  before(async () => {
    room = await createRelayRoom();
    await room.sql(readFileSync(new URL('order.sql', EXAMPLES), 'utf8'));
    await room.relay();
  });

  after(async () => {
    await room.close();
  });

  it('SQL: a job for each row, in the transaction that writes them', async () => {
    await room.drained();
    const [mail] = await room.jobs('mail');
    const [reminder] = await room.jobs('reminders');
    assert.deepEqual([mail.kind, mail.payload], ['receipt', { order: 1, to: 'ada@example.com' }]);
    assert.deepEqual([reminder.kind, reminder.state, reminder.payload], ['review', 'scheduled', { order: 1 }]);
  });

  for (const [language, start, skip] of [
    [
      'Node',
      (email: string) => runScript('examples/outbox/order.js', [email], { DATABASE_URL: room.databaseUrl }),
      false,
    ],
    [
      'Python',
      (email: string) =>
        runProgram('python3', [fileURLToPath(new URL('order.py', EXAMPLES)), email], {
          DATABASE_URL: room.databaseUrl,
          PYTHONDONTWRITEBYTECODE: '1',
        }),
      withoutPsycopg,
    ],
  ] as const) {
    it(`${language}: an order and its job, under the key that it prints`, { skip }, async () => {
      const email = `${language.toLowerCase()}@example.com`;
      const running = start(email);
      assert.equal((await running.exit).code, 0, running.output());
      await room.drained();
      const [order] = await room.sql('select id::int from orders where email = $1', [email]);
      const job = (await room.jobs('mail')).find(({ payload }) => payload.to === email);
      assert.equal(job.idempotencyKey, running.output().trim());
      assert.equal(Number(job.payload.order), order.id);
    });
  }
});
