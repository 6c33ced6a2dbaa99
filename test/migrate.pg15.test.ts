import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { migrate } from '../src/db/migrate.js';
import { createEmptyDatabase, otherPostgres, query } from './helpers/postgres.js';

const server = await otherPostgres();
const skip = server === undefined ? 'PostgreSQL 15 is not installed' : false;

test('all migrations apply on PostgreSQL 15, the oldest one supported', { skip }, async (t) => {
  const database = await createEmptyDatabase(server);
  t.after(() => database.drop());
  const { applied } = await migrate(database.url, { log: pino({ level: 'silent' }) });
  assert.ok(applied.length > 0);
  const [row] = await query(database.url, `select current_setting('server_version_num')::int / 10000 as major`);
  assert.equal(row?.major, 15);
});
