import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import path from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { startCollector } from '../helpers/collector.js';
import { until } from '../helpers/service.js';
import {
  createInstallation,
  endWith,
  type Installation,
  startService,
  type ServiceProcess,
} from '../helpers/service-process.js';

let installation: Installation;
let service: ServiceProcess | undefined;

before(async () => {
  installation = await createInstallation();
});

afterEach(async () => {
  if (service?.child.exitCode === null) await endWith(service, 'SIGTERM');
  service = undefined;
});

after(() => installation.remove());

/** Something that takes connections and says nothing; closed, something that refuses them. */
async function mute(): Promise<{
  readonly url: string;
  readonly connections: () => number;
  readonly close: () => Promise<void>;
}> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => void sockets.add(socket.on('error', () => undefined)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => sockets.size,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function start(env: Readonly<Record<string, string>>): Promise<ServiceProcess> {
  service = await startService(installation, { OTEL_BSP_SCHEDULE_DELAY: '20', ...env });
  return service;
}

/** Jobs through their whole life. */
async function work({ client }: ServiceProcess, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    assert.equal((await client.post('/v1/queues/mail/jobs', {})).status, 201);
    const { jobs } = (await client.post('/v1/queues/mail/lease', { wait: '5s' })).body;
    const { results } = (await client.post('/v1/leases/ack', { items: [{ leaseToken: jobs[0].leaseToken }] })).body;
    assert.equal(results[0].outcome, 'OK');
  }
}

const warnings = (of: ServiceProcess) => of.log().filter(({ level }) => level === 'warn' || level === 'error');

async function stopped(of: ServiceProcess): Promise<number> {
  const began = performance.now();
  const { code } = await endWith(of, 'SIGTERM');
  assert.equal(code, 0, of.output());
  return performance.now() - began;
}

test('a collector that refuses is told of once, harms no call, and does not hold the stop', async () => {
  const { url, close } = await mute();
  await close();
  const running = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_TIMEOUT: '300' });
  await work(running, 20);
  await until('it is told', () => warnings(running).length > 0);
  await work(running, 20);
  const took = await stopped(running);
  assert.ok(took < 6_000, `${took} ms`);
  assert.deepEqual(
    warnings(running).map(({ msg }) => msg),
    ['spans cannot be exported: calls go on without'],
  );
});

test('a collector that never answers harms no call, and holds the stop for two seconds at most', async (t) => {
  const { url, connections, close } = await mute();
  t.after(close);
  const running = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: url });
  await work(running, 20);
  await until('it was sent spans', () => connections() > 0);
  await work(running, 20);
  const took = await stopped(running);
  assert.ok(took < 6_000, `${took} ms`);
  assert.deepEqual(warnings(running), []);
});

test('what was not sent yet is sent at the stop', async (t) => {
  const collector = await startCollector();
  t.after(() => collector.close());
  const running = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: '600000' });
  await work(running, 5);
  assert.deepEqual(collector.spans, []);
  await stopped(running);
  assert.equal(collector.spans.length, 15);
});

test('the SDK of OpenTelemetry is loaded when spans are wanted, and else it is not', async (t) => {
  // Its API is not counted: prom-client always loads that.
  const hook = path.join(installation.dataDirectory, 'loaded.cjs');
  await writeFile(
    hook,
    `process.on('exit', () => {
      const loaded = Object.keys(require.cache).filter((name) => /@opentelemetry.(?!api.)/.test(name));
      process.stderr.write('modules of OpenTelemetry: ' + loaded.length + '\\n');
    });\n`,
  );
  const loaded = async (env: Readonly<Record<string, string>>): Promise<number> => {
    const running = await start({ NODE_OPTIONS: `--require ${hook}`, ...env });
    await work(running, 1);
    await stopped(running);
    return Number(/modules of OpenTelemetry: (\d+)/.exec(running.output())![1]);
  };
  const collector = await startCollector();
  t.after(() => collector.close());
  assert.equal(await loaded({ OTEL_TRACES_SAMPLER: 'nobody looks at this' }), 0);
  assert.equal(await loaded({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_SDK_DISABLED: 'true' }), 0);
  assert.deepEqual(collector.requests, []);
  assert.ok((await loaded({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })) > 10);
});
