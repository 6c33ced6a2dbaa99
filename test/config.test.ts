import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { configurationTable, loadConfig } from '../src/config.js';

const key = 'k'.repeat(32);
const databaseUrl = 'postgres://me:hidden@db.internal:5432/jobs';

function messageFor(env: NodeJS.ProcessEnv): string {
  try {
    loadConfig(env);
  } catch (error) {
    return (error as Error).message;
  }
  return 'no fault';
}

test('without any variable the embedded Postgres is used and only this machine is served', () => {
  assert.deepEqual(loadConfig({}), {
    httpPort: 8080,
    grpcPort: 9090,
    grpcTls: undefined,
    grpcConnectionSeconds: 3_600,
    host: '127.0.0.1',
    databaseUrl: undefined,
    dataDirectory: path.resolve('.stint'),
    adminKeys: [],
    adminKeyFile: undefined,
    jwtIssuers: [],
    corsOrigins: [],
    trustedProxies: [],
    webhookNetworks: [],
    background: true,
    logLevel: 'info',
    metricsPort: undefined,
    drainSeconds: 8,
    drainDelaySeconds: 0,
    databaseConnections: 8,
    auditRetentionDays: 400,
    maxWaiting: 20_000,
    keepAliveSeconds: 75,
    coalescing: true,
  });
});

test('with a database of its own the service listens on all addresses', () => {
  const config = loadConfig({ STINT_DATABASE_URL: databaseUrl, STINT_ADMIN_KEY: key });
  assert.equal(config.databaseUrl, databaseUrl);
  assert.deepEqual(config.adminKeys, [key]);
  assert.equal(config.host, '::');
});

test('every variable that is set is taken', () => {
  const config = loadConfig({
    STINT_HTTP_PORT: '0',
    STINT_HOST: '0.0.0.0',
    STINT_DATA_DIR: '/var/lib/stint',
    STINT_LOG_LEVEL: 'debug',
    STINT_METRICS_PORT: '9100',
    STINT_DRAIN_SECONDS: '60',
    STINT_DRAIN_DELAY_SECONDS: '5',
    STINT_DATABASE_CONNECTIONS: '200',
    STINT_MAX_WAITING: '1000',
    STINT_KEEP_ALIVE_SECONDS: '3600',
  });
  assert.equal(config.httpPort, 0);
  assert.equal(config.host, '0.0.0.0');
  assert.equal(config.dataDirectory, path.resolve('/var/lib/stint'));
  assert.equal(config.logLevel, 'debug');
  assert.equal(config.metricsPort, 9100);
  assert.equal(config.drainSeconds, 60);
  assert.equal(config.drainDelaySeconds, 5);
  assert.equal(config.databaseConnections, 200);
  assert.equal(config.maxWaiting, 1000);
  assert.equal(config.keepAliveSeconds, 3600);
});

test('the configuration cannot be changed', () => {
  assert.ok(Object.isFrozen(loadConfig({})));
});

test("an admin key is required with a database of one's own, unless the command has no use for it", () => {
  assert.match(messageFor({ STINT_DATABASE_URL: databaseUrl }), /^STINT_ADMIN_KEY is missing: .*32 to 256 printable/);
  assert.deepEqual(loadConfig({ STINT_DATABASE_URL: databaseUrl }, { needsAdminKey: false }).adminKeys, []);
});

test('a fault names the variable, what was given and what is accepted', () => {
  assert.equal(messageFor({ STINT_HTTP_PORT: '80a' }), 'STINT_HTTP_PORT is "80a": give a whole number from 0 to 65535');
  assert.equal(
    messageFor({ STINT_HTTP_PORT: '65536' }),
    'STINT_HTTP_PORT is "65536": give a whole number from 0 to 65535',
  );
  assert.match(messageFor({ STINT_LOG_LEVEL: 'loud' }), /^STINT_LOG_LEVEL is "loud": give one of trace, debug/);
  assert.match(messageFor({ STINT_HOST: '[::1]' }), /^STINT_HOST is "\[::1\]": give a host name or an IP address/);
  for (const given of ['-1', '1.5', '1e3', '0x10', ' 1', '1 ', '+1', '']) {
    assert.match(messageFor({ STINT_DRAIN_SECONDS: given }), /give a whole number from 1 to 60/, given);
  }
});

test('all faults are told at once, a line each', () => {
  const message = messageFor({
    STINT_HTTP_PORT: 'x',
    STINT_DRAIN_SECONDS: '0',
    STINT_DATABASE_URL: 'mysql://x',
    STINT_HTP_PORT: '1',
  });
  const faults = ['STINT_HTP_PORT', 'STINT_HTTP_PORT', 'STINT_DATABASE_URL', 'STINT_ADMIN_KEY', 'STINT_DRAIN_SECONDS'];
  assert.deepEqual(
    message
      .split('\n')
      .map((line) => line.split(' ')[0])
      .sort(),
    faults.sort(),
  );
});

test('a secret is never repeated in a fault', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 6, maxLength: 300 }), (secret) => {
      const message = messageFor({
        STINT_ADMIN_KEY: `${secret} \n`,
        STINT_DATABASE_URL: `mysql://me:${secret}@host/db`,
      });
      assert.match(message, /STINT_ADMIN_KEY is not what it should be/);
      assert.match(message, /STINT_DATABASE_URL is not what it should be/);
      const words = messageFor({ STINT_ADMIN_KEY: ' ', STINT_DATABASE_URL: 'x' });
      assert.equal(message, words);
    }),
  );
});

test('a database URL that is set but empty is refused: it would quietly mean the embedded Postgres', () => {
  assert.match(
    messageFor({ STINT_DATABASE_URL: '', STINT_ADMIN_KEY: key }),
    /^STINT_DATABASE_URL is empty: give postgres:/,
  );
});

test('an unknown variable is refused by name, with the nearest known one', () => {
  assert.equal(
    messageFor({ STINT_HTPP_PORT: '1' }),
    'STINT_HTPP_PORT is not a variable of Stint: did you mean STINT_HTTP_PORT?',
  );
  assert.match(messageFor({ STINT_DRAIN_SECOND: '1' }), /did you mean STINT_DRAIN_SECONDS\?/);
  assert.match(messageFor({ STINT_SOMETHING_ELSE_ENTIRELY: '1' }), /is not a variable of Stint$/);
});

test('variables for the tests and those of others are none of its business', () => {
  assert.equal(messageFor({ STINT_TEST_FSYNC: 'on', HTTP_PORT: 'x', PATH: '' }), 'no fault');
});

test('metrics on a port of their own cannot share the main one', () => {
  assert.match(messageFor({ STINT_METRICS_PORT: '8080' }), /^STINT_METRICS_PORT is 8080, as STINT_HTTP_PORT is/);
  assert.equal(messageFor({ STINT_METRICS_PORT: '0', STINT_HTTP_PORT: '0' }), 'no fault');
});

test('the table for the documentation has a row with a meaning for every variable', () => {
  const rows = configurationTable().trim().split('\n').slice(2);
  const { coalescing, ...described } = loadConfig({});
  assert.equal(coalescing, true, 'a benchmark’s, and no variable of the service');
  // A server's certificate is one thing, of three files.
  assert.equal(rows.length, Object.keys(described).length + 2);
  for (const row of rows) assert.match(row, /^\| `STINT_[A-Z_]+` \| .+ \| .+ \| .+\. \|$/);
});

test('origins are taken as browsers send them, and nothing wider', () => {
  const taken = (given: string) => loadConfig({ STINT_CORS_ORIGINS: given }).corsOrigins;
  assert.deepEqual(taken('https://console.example.com'), ['https://console.example.com']);
  assert.deepEqual(taken('https://a.example, http://localhost:3000,http://[::1]:8080'), [
    'https://a.example',
    'http://localhost:3000',
    'http://[::1]:8080',
  ]);
  const wrong = [
    '*',
    'null',
    'https://*.example.com',
    'console.example.com',
    'https://console.example.com/',
    'https://console.example.com/path',
    'https://Console.example.com',
    'https://console.example.com:443',
    'http://console.example.com:80',
    'https://me@console.example.com',
    'https://console.example.com?q',
    'https://b\u00fccher.example',
    'ftp://console.example.com',
    'file://',
    '',
  ];
  for (const item of wrong) {
    const message = messageFor({ STINT_CORS_ORIGINS: `https://a.example,${item}` });
    assert.ok(message.startsWith(`STINT_CORS_ORIGINS holds ${JSON.stringify(item)}: give exact origins,`), message);
  }
  assert.match(messageFor({ STINT_CORS_ORIGINS: '' }), /^STINT_CORS_ORIGINS is empty: give exact origins/);
});

test('trusted proxies are addresses and ranges', () => {
  const taken = (given: string) => loadConfig({ STINT_TRUSTED_PROXIES: given }).trustedProxies;
  assert.deepEqual(taken('10.0.0.0/8, 192.0.2.7,2001:db8::/32,::1'), [
    '10.0.0.0/8',
    '192.0.2.7',
    '2001:db8::/32',
    '::1',
  ]);
  assert.deepEqual(taken('0.0.0.0/0,::/0'), ['0.0.0.0/0', '::/0']);
  const wrong = ['10.0.0.0/33', '::/129', '10.0.0/8', '10.0.0.0/', '10.0.0.0/-1', '10.0.0.0/8/8', 'proxy.internal'];
  for (const item of [...wrong, 'fe80::1%eth0', '::ffff:10.0.0.1', '::ffff:a00:1', '[::1]', '10.0.0.1:80', '*', '']) {
    const message = messageFor({ STINT_TRUSTED_PROXIES: `::1,${item}` });
    assert.ok(message.startsWith(`STINT_TRUSTED_PROXIES holds ${JSON.stringify(item)}: give IP addresses`), message);
  }
});
