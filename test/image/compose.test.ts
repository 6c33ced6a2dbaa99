import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config.js';
import { createEmptyDatabase, query } from '../helpers/postgres.js';
import { dashboards } from '../helm/expressions.js';
import { composeFile, filledIn } from './compose.js';
import { read, ROOT } from './dockerfile.js';

const GO = spawnSync('go', ['version']).status === 0;
const FILE = composeFile();
const SERVICES = Object.entries(FILE.services);
/** Images that are built here; all others are fetched. */
const BUILT = /^stint(-worker)?:local$/;

describe('the library of Docker Compose', { skip: !GO && 'Go is not installed' }, () => {
  let folder: string;

  before(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'stint-compose-'));
    const args = ['build', '-o', path.join(folder, 'compose'), '.'];
    const { status, stderr } = spawnSync('go', args, { cwd: path.join(ROOT, 'test/image/compose'), encoding: 'utf8' });
    assert.equal(status, 0, stderr);
  });

  after(() => rmSync(folder, { recursive: true }));

  function load(file: string) {
    // None of this machine's variables, so that the defaults count.
    return spawnSync(path.join(folder, 'compose'), [file], { encoding: 'utf8', env: { PATH: process.env['PATH'] } });
  }

  test('loads the Compose file, with every profile', () => {
    const { status, stdout, stderr } = load(path.join(ROOT, 'docker-compose.yml'));
    assert.equal(status, 0, stderr);
    const { services } = JSON.parse(stdout) as { services: object };
    assert.deepEqual(Object.keys(services).sort(), Object.keys(FILE.services).sort());
  });

  for (const [what, from, to] of [
    ['a member that does not exist', 'read_only: true', 'readonly: true'],
    ['a volume that is not declared', 'keys:/keys:ro', 'kyes:/keys:ro'],
    ['a dependency that is no service', 'postgres: { condition', 'postgers: { condition'],
  ] as const) {
    test(`refuses ${what}`, () => {
      const file = path.join(folder, 'docker-compose.yml');
      const text = read('docker-compose.yml').replace(from, to);
      assert.ok(text.includes(to));
      writeFileSync(file, text);
      const { status, stderr } = load(file);
      assert.equal(status, 1);
      assert.match(stderr, /readonly|kyes|postgers/);
    });
  }
});

test('docker compose up alone starts the service and its Postgres, and nothing else', () => {
  const started = SERVICES.filter(([, { profiles }]) => profiles === undefined).map(([name]) => name);
  assert.deepEqual(started, ['stint', 'postgres']);
});

for (const [name, service] of SERVICES) {
  test(`${name} is pinned, bounded, may gain no privileges, and is published on this machine alone`, () => {
    assert.match(service.image, BUILT.test(service.image) ? /^stint/ : /:v?\d+\.\d+/);
    assert.equal(service['build'] !== undefined, BUILT.test(service.image));
    assert.deepEqual(service['cap_drop'], ['ALL']);
    assert.deepEqual(service['security_opt'], ['no-new-privileges:true']);
    assert.ok(service['deploy'].resources.limits.memory);
    for (const port of (service['ports'] ?? []) as string[]) assert.match(port, /^127\.0\.0\.1:/);
    // Compose puts no inline config into a container whose root is read-only.
    const takesConfigs = service.configs !== undefined;
    assert.equal(service['read_only'] === true, !takesConfigs && name !== 'grafana');
  });

  test(`what ${name} mounts is there`, () => {
    for (const { source } of service.configs ?? []) assert.ok(FILE.configs[source], source);
    for (const volume of service.volumes ?? []) {
      const [from] = volume.split(':');
      const isThere = from!.startsWith('.') ? existsSync(path.join(ROOT, from!)) : from! in FILE.volumes;
      assert.ok(isThere, `${from!} is not there`);
    }
  });
}

test('the service accepts the variables that it is given', () => {
  const environment = Object.entries(FILE.services['stint']!.environment!);
  const config = loadConfig(Object.fromEntries(environment.map(([name, value]) => [name, filledIn(value)])));
  assert.equal(config.metricsPort, 9464);
  assert.equal(config.databaseUrl, 'postgres://stint:only-for-trying-out@postgres:5432/stint');
});

test('the settings of Postgres are those that docs/postgres.md has, and Postgres takes them', async () => {
  const settings = FILE.services['postgres']!.command!.filter((word) => word.startsWith('-c')).map((word) =>
    word.slice(2).split('='),
  ) as [string, string][];
  assert.ok(settings.length > 8);
  const page = read('docs/postgres.md');
  for (const [name] of settings)
    assert.ok(page.includes(`| \`${name}\` |`), `docs/postgres.md says nothing of ${name}`);
  const database = await createEmptyDatabase();
  try {
    for (const [name, value] of settings) {
      // Looked at and written down, but not in force before the server is told, which nobody does.
      await query(database.url, `alter system set ${name} = '${value}'`);
      await query(database.url, `alter system reset ${name}`);
    }
  } finally {
    await database.drop();
  }
});

test('Prometheus scrapes the port that the service has, and Grafana asks Prometheus', () => {
  const { scrape_configs: jobs } = parse(FILE.configs['prometheus']!.content);
  assert.deepEqual(jobs[0].static_configs[0].targets, [
    `stint:${FILE.services['stint']!.environment!['STINT_METRICS_PORT']!}`,
  ]);
  const { datasources } = parse(FILE.configs['grafana-datasource']!.content);
  assert.equal(datasources[0].url, 'http://prometheus:9090');
});

test('Grafana finds the dashboards, and shows that of the service first', () => {
  const { volumes, environment } = FILE.services['grafana']!;
  const { providers } = parse(FILE.configs['grafana-dashboards']!.content);
  const place = providers[0].options.path as string;
  assert.ok(volumes!.includes(`./helm/stint/dashboards:${place}:ro`));
  const home = path.basename(environment!['GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH']!);
  assert.ok(
    dashboards().some(({ name }) => path.basename(name) === home),
    home,
  );
});
