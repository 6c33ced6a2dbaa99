import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { version } from '../../src/version.js';
import { committedConfiguration } from '../configuration.js';
import { CHART, HERE, valueSets } from './chart.js';
import { committedReadme, readmeText } from './readme.js';

const schema = JSON.parse(read('values.schema.json')) as Schema;
const valid = new Ajv({ allErrors: true, allowUnionTypes: true, strict: false }).compile(schema);
/** The embedded Postgres is not for clusters; keys are given as files. */
const LEFT_TO_EXTRA_ENV = ['STINT_DATA_DIR', 'STINT_ADMIN_KEY', 'STINT_RELAY_KEY'];

interface Schema {
  readonly type?: unknown;
  readonly additionalProperties?: unknown;
  readonly properties?: Record<string, Schema>;
  readonly [member: string]: unknown;
}

function read(file: string): string {
  return readFileSync(path.join(CHART, file), 'utf8');
}

function templates(): string {
  return readdirSync(path.join(CHART, 'templates'))
    .map((name) => read(`templates/${name}`))
    .join('\n');
}

test('the chart installs the version of package.json', () => {
  const chart = parse(read('Chart.yaml')) as { version: string; appVersion: string };
  assert.equal(chart.appVersion, version());
  assert.match(chart.version, /^\d+\.\d+\.\d+$/);
});

test('the defaults and every value set of the tests keep to the schema', () => {
  for (const file of [
    path.join(CHART, 'values.yaml'),
    ...valueSets().map((name) => path.join(HERE, 'values', `${name}.yaml`)),
  ]) {
    assert.ok(valid(parse(readFileSync(file, 'utf8'))), `${file}: ${JSON.stringify(valid.errors)}`);
  }
});

test('the schema has every value, and no other', () => {
  assert.deepEqual(namesOf(schema), namesIn(parse(read('values.yaml')), schema));
});

test('the schema refuses a name that it does not have in every map with fixed members', () => {
  let maps = 0;
  for (const at of fixedMaps(schema, [])) {
    const typo = at.reduceRight<unknown>((inner, name) => ({ [name]: inner }), { tpyo: 1 });
    assert.ok(!valid(typo), `${at.join('.')} takes any name`);
    maps += 1;
  }
  assert.ok(maps > 40, `only ${maps} maps were tried`);
});

test('every variable of the service and of the relay can be set by the chart', () => {
  const text = templates();
  for (const [, name] of committedConfiguration().matchAll(/^\| `(STINT_\w+)` \|/gm)) {
    if (LEFT_TO_EXTRA_ENV.includes(name!)) continue;
    assert.ok(new RegExp(`\\b${name!}\\b`).test(text), `no template sets ${name!}`);
  }
});

test('every value is used by a template', () => {
  const text = templates();
  for (const name of Object.keys(parse(read('values.yaml')) as object)) {
    assert.ok(new RegExp(`\\.Values\\.${name}\\b`).test(text), `no template uses ${name}`);
  }
});

test('the README of the chart has the table that values.yaml calls for', () => {
  const stale = 'helm/stint/README.md is out of date: npm run build && node dist/test/helm/readme.js --write';
  assert.ok(committedReadme() === readmeText(), stale);
});

/** The schema that `$ref` names. */
function resolved(part: Schema): Schema {
  const ref = part['$ref'];
  return typeof ref === 'string' ? (schema['$defs'] as Record<string, Schema>)[ref.replace('#/$defs/', '')]! : part;
}

/** Paths of all maps with fixed members, to be reached without going through a list. */
function fixedMaps(part: Schema, at: string[]): string[][] {
  const { properties, additionalProperties } = resolved(part);
  if (properties === undefined) return [];
  assert.equal(additionalProperties, false, `${at.join('.')} must not take any name`);
  return [at, ...Object.entries(properties).flatMap(([name, inner]) => fixedMaps(inner, [...at, name]))];
}

function namesOf(part: Schema): string[] {
  return Object.keys(resolved(part).properties ?? {})
    .filter((name) => name !== 'global')
    .flatMap((name) => below(name, namesOf(resolved(part).properties![name]!)))
    .filter((name) => !KUBERNETES_OWN.test(name))
    .sort();
}

/** The names in values that the schema describes further. */
function namesIn(values: unknown, part: Schema): string[] {
  const { properties } = resolved(part);
  if (properties === undefined || typeof values !== 'object' || values === null) return [];
  return Object.entries(values)
    .flatMap(([name, inner]) => below(name, namesIn(inner, properties[name] ?? {})))
    .filter((name) => !KUBERNETES_OWN.test(name))
    .sort();
}

function below(name: string, inner: string[]): string[] {
  return inner.length === 0 ? [name] : inner.map((rest) => `${name}.${rest}`);
}

/** Maps of Kubernetes' own, of which the values name a part. */
const KUBERNETES_OWN = /(^|\.)(resources|affinity|updateStrategy|startup|liveness|readiness)\b/;
