import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { configurationTable, loadConfig, loadRelayConfig, tracingConfigurationTable } from '../src/config.js';

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
    migrate: true,
    dataDirectory: path.resolve('.stint'),
    adminKeys: [],
    adminKeyFile: undefined,
    jwtIssuers: [],
    corsOrigins: [],
    trustedProxies: [],
    webhookNetworks: [],
    background: true,
    logLevel: 'info',
    tracing: undefined,
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
    STINT_MIGRATE: 'off',
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
  assert.equal(config.migrate, false);
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

test('a database URL that asks for TLS in a way nobody knows is refused: the driver would connect without', () => {
  const faultOf = (query: string) =>
    messageFor({ STINT_DATABASE_URL: `${databaseUrl}?${query}`, STINT_ADMIN_KEY: key });
  assert.equal(
    faultOf('sslmode=verify'),
    'STINT_DATABASE_URL has sslmode "verify": give one of disable, prefer, require, verify-ca, verify-full, no-verify',
  );
  assert.match(faultOf('sslMode=verify-full'), /^STINT_DATABASE_URL has a parameter "sslMode": give sslmode and/);
  assert.match(
    faultOf('sslrootcert=/no/such'),
    /^STINT_DATABASE_URL has sslrootcert "\/no\/such", which cannot be read \(ENOENT\)/,
  );
  assert.equal(faultOf('sslmode=verify-full&application_name=x'), 'no fault');
  const relay = (): unknown =>
    loadRelayConfig('database', { STINT_RELAY_DATABASE_URL: 'postgres://me:hidden@db/x?ssl_mode=require' });
  assert.throws(relay, /^Error: STINT_RELAY_DATABASE_URL has a parameter "ssl_mode": give/);
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
  const { coalescing, tracing, ...described } = loadConfig({});
  assert.equal(tracing, undefined, 'has a table of its own');
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
    const shown = JSON.stringify(item.replace('me@', '[hidden]@'));
    assert.ok(message.startsWith(`STINT_CORS_ORIGINS holds ${shown}: give exact origins,`), message);
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

test('of every variable an empty or a wrong value stops the start, with one line that names it and says what is allowed', () => {
  const names = [...configurationTable().matchAll(/^\| `(STINT_[A-Z_]+)` /gm)].map(([, name]) => name!);
  assert.ok(names.length > 20);
  // Where a file is, and whether it can be read, is seen when it is read.
  const isFree = (name: string): boolean => /_FILE$|_DIR$/.test(name);
  for (const name of names) {
    for (const given of isFree(name) ? [''] : ['', 'no such thing!', '\u0000']) {
      const lines = messageFor({ [name]: given }).split('\n');
      const own = lines.filter((line) => line.startsWith(`${name} `));
      assert.equal(own.length, 1, `${name}=${given}: ${lines.join('; ')}`);
      assert.match(own[0]!, / (is|holds) .+: give .+/, name);
    }
  }
});

/** The service's faults with spans wanted, a line each. */
const tracingFaults = (env: NodeJS.ProcessEnv): string[] =>
  messageFor({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318', ...env }).split('\n');

test('of OpenTelemetry’s variables a wrong value stops the start, with a line that names it and says what is allowed', () => {
  const rows = [...tracingConfigurationTable().matchAll(/^\| `(OTEL_[A-Z_]+)` \| .+ \| .+ \| .+\. \|$/gm)];
  const free = ['OTEL_SERVICE_NAME'];
  const names = rows.map(([, name]) => name!).filter((name) => !free.includes(name));
  assert.equal(names.length, 25);
  const wrong = (name: string): string => (name.includes('ATTRIBUTES') ? 'a=%zz' : 'no such thing');
  for (const name of names) {
    const [line, ...more] = tracingFaults({ [name]: wrong(name) });
    assert.match(line!, new RegExp(`^${name} (is|holds) .+: give .+`), name);
    assert.deepEqual(
      more.filter((each) => !/go together/.test(each)),
      [],
      name,
    );
  }
  const all = tracingFaults(Object.fromEntries(names.map((name) => [name, wrong(name)])));
  assert.deepEqual(
    all.map((line) => line.split(' ')[0]!).toSorted(),
    names.filter((name) => !/_(CERTIFICATE|CLIENT_KEY)$/.test(name)).toSorted(),
    'what can be told only of values that are otherwise sound is told next',
  );
});

test('a fault of OpenTelemetry’s variables shows the value, unless it may be a secret', () => {
  const [protocol] = tracingFaults({ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' });
  assert.equal(protocol, 'OTEL_EXPORTER_OTLP_PROTOCOL is "grpc": give one of http/protobuf');
  const [ratio] = tracingFaults({ OTEL_TRACES_SAMPLER_ARG: '1.5' });
  assert.equal(ratio, 'OTEL_TRACES_SAMPLER_ARG is "1.5": give a number from 0 to 1');
  const [batch] = tracingFaults({ OTEL_BSP_MAX_QUEUE_SIZE: '10' });
  assert.match(batch!, /^OTEL_BSP_MAX_EXPORT_BATCH_SIZE is 512, more than OTEL_BSP_MAX_QUEUE_SIZE, which is 10: give/);
  const [certificate] = tracingFaults({ OTEL_EXPORTER_OTLP_CERTIFICATE: '/no/such.pem' });
  assert.match(
    certificate!,
    /^OTEL_EXPORTER_OTLP_CERTIFICATE is "\/no\/such.pem", which cannot be read \(ENOENT\): give a file/,
  );
  for (const name of ['OTEL_EXPORTER_OTLP_HEADERS', 'OTEL_EXPORTER_OTLP_TRACES_HEADERS']) {
    for (const given of [
      'authorization: Bearer hidden-1',
      'authorization=hidden-1%zz',
      'a=b,hidden-1',
      'a=%0Ahidden-1',
    ]) {
      const [line] = tracingFaults({ [name]: given });
      assert.match(line!, new RegExp(`^${name} is not what it should be \\(not shown\\): give name=value`), given);
      assert.doesNotMatch(line!, /hidden-1/);
    }
  }
});

test('the user and the password of a URL are never repeated, whichever variable they were put into', () => {
  const url = 'https://me:hidden-1@example.com';
  const names = ['STINT_HOST', 'STINT_HTTP_PORT', 'STINT_CORS_ORIGINS', 'STINT_TRUSTED_PROXIES', 'STINT_LOG_LEVEL'];
  for (const name of names) {
    const message = messageFor({ [name]: url });
    assert.ok(message.includes('"https://[hidden]@example.com": give'), message);
  }
  const [endpoint] = tracingFaults({ OTEL_EXPORTER_OTLP_ENDPOINT: url });
  assert.match(
    endpoint!,
    /^OTEL_EXPORTER_OTLP_ENDPOINT is "https:\/\/\[hidden\]@example.com": give an http or https URL/,
  );
  const relay = (): unknown => loadRelayConfig('all', { STINT_RELAY_URL: url });
  assert.throws(relay, (error: Error) => /STINT_RELAY_URL is "https:\/\/\[hidden\]@/.test(error.message));
  assert.throws(relay, (error: Error) => !error.message.includes('hidden-1'));
});

test('without an endpoint, or switched off, nothing of OpenTelemetry is looked at', () => {
  const wrong = { OTEL_TRACES_SAMPLER: 'x', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_EXPORTER_OTLP_HEADERS: 'x' };
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
  for (const env of [
    {},
    { OTEL_EXPORTER_OTLP_ENDPOINT: ' ' },
    { ...endpoint, OTEL_SDK_DISABLED: 'TRUE' },
    { ...endpoint, OTEL_TRACES_EXPORTER: 'none' },
  ]) {
    assert.equal(loadConfig({ ...wrong, ...env }).tracing, undefined);
  }
});

test('spans go where OpenTelemetry’s variables say', () => {
  const taken = (env: NodeJS.ProcessEnv) =>
    loadConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318', ...env }).tracing!;
  const plain = taken({ OTEL_SERVICE_NAME: '', OTEL_TRACES_SAMPLER: ' ' });
  assert.deepEqual(plain, {
    url: 'http://collector:4318/v1/traces',
    headers: {},
    timeout: 10_000,
    compression: 'none',
    tls: { authority: undefined, certificate: undefined, key: undefined },
    attributes: {},
    sampler: { name: 'parentbased_always_on', ratio: 1 },
    batch: { delay: 5_000, timeout: 30_000, mostWaiting: 2_048, mostSpans: 512 },
  });
  assert.equal(
    taken({ OTEL_EXPORTER_OTLP_ENDPOINT: 'https://c.example/otlp/' }).url,
    'https://c.example/otlp/v1/traces',
  );
  assert.equal(taken({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://t:1/x' }).url, 'http://t:1/x');
  assert.deepEqual(
    taken({
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Basic%20YTpi==, x-a=1,',
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'x-a=2',
    }).headers,
    { authorization: 'Basic YTpi==', 'x-a': '2' },
  );
  assert.deepEqual(
    taken({ OTEL_RESOURCE_ATTRIBUTES: 'service.name=x,k8s.pod.name=a%2Cb', OTEL_SERVICE_NAME: 'queue' }).attributes,
    { 'service.name': 'queue', 'k8s.pod.name': 'a,b' },
  );
  assert.deepEqual(taken({ OTEL_TRACES_SAMPLER: 'TraceIdRatio', OTEL_TRACES_SAMPLER_ARG: '0.25' }).sampler, {
    name: 'traceidratio',
    ratio: 0.25,
  });
  assert.equal(taken({ OTEL_EXPORTER_OTLP_TIMEOUT: '3000', OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: '5000' }).timeout, 5_000);
});
