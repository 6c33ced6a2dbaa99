import assert from 'node:assert/strict';
import { test } from 'node:test';
import { committedSchema, dumpSchema } from './dump-schema.js';
import { createDatabase } from './helpers/postgres.js';

test('migrations/schema.sql is the shape that the migrations make: npm run schema writes it', async () => {
  const database = await createDatabase();
  try {
    const dump = await dumpSchema(database.url);
    assert.match(dump, /create table ready \(/);
    assert.ok(committedSchema() === dump, 'migrations/schema.sql is out of date: npm run schema');
  } finally {
    await database.drop();
  }
});
