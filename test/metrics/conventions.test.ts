import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { lease } from '../contract/jobs.js';
import { expressionsOf } from '../helm/expressions.js';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';
import { createRelayMetrics } from '../../src/relay/metrics.js';
import { type Family, readScrape, scrape, type Series, sumOf } from './scrape.js';

/** Written by prom-client by rules of its own. */
const OF_THE_LIBRARY = /^stint_(process|nodejs)_/;
const UNITS = /_(seconds|bytes|total|rows|jobs|transactions|connections|leases|streams|breaches|waiting|healthy)$/;
const OTHER_UNITS = /_(milliseconds|millis|ms|minutes|hours|micros|microseconds|kilobytes|kb|mb|percent)(_|$)/;
/** Labels, and what bounds their values: a text of ours, or the number of queues that are shown. */
const LABELS: Readonly<Record<string, RegExp>> = {
  operation: /^[A-Z][A-Za-z]+$/,
  transport: /^(http|grpc)$/,
  code: /^[A-Z_]+$/,
  kind: /^[a-z_-]+$/,
  event: /^[a-z]+$/,
  pool: /^[a-z]+$/,
  state: /^[a-z]+$/,
  task: /^[a-z-]+$/,
  result: /^(ok|error)$/,
  count: /^[a-zA-Z]+$/,
  breach: /^[a-z_]+$/,
  recorded: /^(true|false)$/,
  holder: /^[a-z_]+$/,
  table: /^[a-z_]+$/,
  part: /^(heap|indexes)$/,
  tenant: /^[\w.-]*$/,
  queue: /^[\w.-]+$/,
  le: /^([0-9.]+|\+Inf)$/,
};
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}/;

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant({ name: 'acme' });
});
after(() => service.stop());

test('C79: metrics keep to the conventions and name no id, worker, key or text of an error, whatever the traffic', async () => {
  await traffic();
  await until(
    'all is sampled',
    async () => sumOf([await scrape(service.base)], 'stint_table_bytes') !== undefined,
    30_000,
  );
  const families = await ownFamilies();
  assert.ok(families.length > 30);
  for (const family of families) checkFamily(family);
});

/** What Prometheus adds to every series of a target. */
const OF_THE_TARGET = ['namespace', 'pod', 'job', 'instance', 'le'];

test('what alerts and dashboards ask for is there, with the labels and values that they name', async () => {
  const families = [...(await ownFamilies()), ...readScrape((await createRelayMetrics().render()).body)];
  const seriesOf = (name: string): readonly Series[] | undefined =>
    families.find((each) => each.name === name)?.series ??
    families.find((each) => each.name === name.replace(/_(bucket|sum|count)$/, ''))?.series;
  let asked = 0;
  for (const { from, expression } of expressionsOf()) {
    for (const [, name, selector = ''] of expression.matchAll(/\b(stint_\w+)(?:\{((?:[^}"]|"[^"]*")*)\})?/g)) {
      if (OF_THE_LIBRARY.test(name!)) continue;
      const series = seriesOf(name!);
      assert.ok(series !== undefined, `${from} asks for ${name!}, which there is not`);
      for (const [, label, operator, value] of selector.matchAll(/(\w+)(=~|!=|=|!~)"((?:[^"\\]|\\.)*)"/g)) {
        if (OF_THE_TARGET.includes(label!)) continue;
        const values = new Set(series.map(({ labels }) => labels[label!]));
        assert.ok(series.length > 0 && !values.has(undefined), `${from}: ${name!} has no label ${label!}`);
        if (operator === '=') assert.ok(values.has(value), `${from}: ${name!} has no ${label!}="${value!}"`);
        asked += 1;
      }
    }
    const known = new Set(families.flatMap(({ series }) => series.flatMap(({ labels }) => Object.keys(labels))));
    for (const [, labels] of expression.matchAll(/\b(?:by|on) \(([^)]*)\)/g)) {
      for (const label of labels!.split(', ').filter((each) => !OF_THE_TARGET.includes(each)))
        assert.ok(known.has(label), `${from} groups by ${label}, which is no label`);
    }
  }
  assert.ok(asked > 30, `${asked} labels`);
});

async function ownFamilies(): Promise<Family[]> {
  return (await scrape(service.base)).filter(({ name }) => !OF_THE_LIBRARY.test(name));
}

function checkFamily({ name, type, help, series }: Family): void {
  assert.match(name, /^stint_[a-z_]+$/);
  assert.match(help, /^[A-Z0-9].{9,}[^.]$/, `${name}: ${help}`);
  assert.equal(name.endsWith('_total'), type === 'counter', `${name} is a ${type}`);
  assert.match(name, UNITS, `${name} names no unit`);
  assert.doesNotMatch(name, OTHER_UNITS, `${name} is not in a base unit`);
  assert.doesNotMatch(name, /_(bucket|sum|count|gauge|histogram)$/, name);
  for (const { name: own, labels, value } of series) {
    assert.ok(Number.isFinite(value), `${own} is ${value}`);
    for (const [label, text] of Object.entries(labels)) {
      assert.ok(LABELS[label] !== undefined, `${own} has a label ${label}, whose bound is not known here`);
      assert.match(text, LABELS[label], `${own}: ${label}`);
      assert.doesNotMatch(text, UUID, `${own}: ${label}`);
    }
  }
}

async function traffic(): Promise<void> {
  const reader = await service.tenant({ scopes: ['read'] });
  assert.equal((await reader.put('/v1/queues/mine', {})).status, 403);
  const made = await client.post('/v1/queues/mail/jobs', { payload: 1 }, { headers: { 'idempotency-key': 'a key' } });
  assert.equal(made.status, 201);
  await client.post('/v1/queues/mail/jobs', { payload: 1 });
  const jobs = await lease(client, 'mail', { maxJobs: 2, worker: 'worker of a@example.org' });
  const [first, second] = jobs.map(({ leaseToken }) => ({ leaseToken }));
  await client.post('/v1/leases/nack', { items: [{ ...first, error: { message: 'it broke' } }] });
  await client.post('/v1/leases/ack', { items: [second] });
  for (const path of [
    '/v1/queues/mail',
    '/v1/nothing/here',
    `/v1/jobs/${made.body.id}`,
    '/v1/queues/a%20b',
    '/v1/queues/none/stats',
  ])
    await client.get(path);
  await client.put('/v1/schedules/daily', { cron: '0 3 * * *', queue: 'mail' });
}
