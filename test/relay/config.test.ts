import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig, loadRelayConfig, relayConfigurationTable } from '../../src/config.js';

const databaseUrl = 'postgres://me:hidden@db.internal:5432/shop';
const all = {
  STINT_RELAY_DATABASE_URL: databaseUrl,
  STINT_RELAY_URL: 'https://stint.example.com',
  STINT_RELAY_KEY: 'k',
};

function messageFor(env: NodeJS.ProcessEnv, needs: 'schema' | 'database' | 'all' = 'all'): string {
  try {
    loadRelayConfig(needs, env);
  } catch (error) {
    return (error as Error).message;
  }
  return 'no fault';
}

test('the relay has its own variables, with defaults', () => {
  assert.deepEqual(loadRelayConfig('all', all), {
    databaseUrl,
    url: 'https://stint.example.com',
    key: 'k',
    keyFile: undefined,
    schema: 'stint_outbox',
    batch: 500,
    pollSeconds: 5,
    host: '::',
    port: 8081,
    logLevel: 'info',
  });
});

test('each command asks for what it needs and no more', () => {
  assert.equal(messageFor({}, 'schema'), 'no fault');
  assert.match(messageFor({}, 'database'), /^STINT_RELAY_DATABASE_URL is missing: [^\n]+$/);
  assert.deepEqual(
    messageFor({})
      .split('\n')
      .map((line) => line.split(' ')[0]),
    ['STINT_RELAY_DATABASE_URL', 'STINT_RELAY_URL', 'STINT_RELAY_KEY'],
  );
  assert.match(messageFor({ ...all, STINT_RELAY_KEY_FILE: '/k' }), /exclude each other/);
});

test('the service and the relay do not mind each other’s variables, and mind unknown ones', () => {
  assert.equal(loadConfig({ ...all, STINT_RELAY_PORT: 'none of its business' }).httpPort, 8080);
  assert.equal(messageFor({ ...all, STINT_ADMIN_KEY: 'short', STINT_HTTP_PORT: 'x' }), 'no fault');
  assert.match(messageFor({ ...all, STINT_RELAY_POTR: '1' }), /did you mean STINT_RELAY_PORT\?/);
});

test('a schema is always one of ours by its name', () => {
  for (const schema of [
    'public',
    'stint',
    'stint_',
    'stint_A',
    'stint_a;drop',
    'stint_a b',
    `stint_${'x'.repeat(51)}`,
    '"stint_a"',
    '',
  ]) {
    assert.match(
      messageFor({ ...all, STINT_RELAY_SCHEMA: schema }),
      /^STINT_RELAY_SCHEMA is .*give stint_ and 1 to 50/,
      schema,
    );
  }
});

test('secrets are not repeated, and a URL of Stint holds none', () => {
  const message = messageFor({
    ...all,
    STINT_RELAY_DATABASE_URL: 'mysql://me:hidden@db',
    STINT_RELAY_KEY: 'two words',
  });
  assert.doesNotMatch(message, /hidden|two words/);
  for (const url of [
    'https://me:pw@stint',
    'stint.example.com',
    'ftp://stint',
    'https://stint?x=1',
    'https://stint#x',
  ]) {
    assert.match(messageFor({ ...all, STINT_RELAY_URL: url }), /^STINT_RELAY_URL is /, url);
  }
});

test('the table for the documentation has a row with a meaning for every variable', () => {
  const rows = relayConfigurationTable().trim().split('\n').slice(2);
  assert.equal(rows.length, Object.keys(loadRelayConfig('all', all)).length - 1, 'the log level is in the other table');
  for (const row of rows) assert.match(row, /^\| `STINT_RELAY_[A-Z_]+` \| .+ \| .+ \| .+\. \|$/);
});
