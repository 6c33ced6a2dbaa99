import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Ajv, type ValidateFunction } from 'ajv';
import { parse } from 'yaml';
import type { Manifest } from './chart.js';

/** The module is fetched for the definitions in it, and for nothing that would have to be built. */
const MODULE = 'github.com/kedacore/keda/v2@v2.21.0';
const SUM = 'h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=';

/** What is wrong with an object of KEDA, by the definitions that KEDA installs; empty if nothing is. */
export type KedaFaults = (manifest: Manifest) => string[];

/** Reads the definitions. Go has to be installed. */
export function kedaDefinitions(): KedaFaults {
  const { status, stdout, stderr } = spawnSync('go', ['mod', 'download', '-json', MODULE], {
    cwd: tmpdir(),
    encoding: 'utf8',
  });
  assert.equal(status, 0, `${stdout}${stderr}`);
  const { Dir: folder, Sum: sum } = JSON.parse(stdout) as { Dir: string; Sum: string };
  assert.equal(sum, SUM, 'the module is not the one that was looked at');
  const validators = new Map(
    ['scaledobjects', 'triggerauthentications'].flatMap((plural) => {
      const { spec } = parse(readFileSync(path.join(folder, `config/crd/bases/keda.sh_${plural}.yaml`), 'utf8')) as {
        spec: {
          group: string;
          names: { kind: string };
          versions: { name: string; schema: { openAPIV3Schema: unknown } }[];
        };
      };
      return spec.versions.map(({ name, schema }): [string, ValidateFunction] => [
        `${spec.group}/${name} ${spec.names.kind}`,
        new Ajv({ strict: false, validateFormats: false, allErrors: true }).compile(closed(schema.openAPIV3Schema)),
      ]);
    }),
  );
  return (manifest) => {
    const valid = validators.get(`${manifest.apiVersion} ${manifest.kind}`);
    if (valid === undefined) return [`${manifest.kind} of ${manifest.apiVersion} is not defined`];
    return valid(manifest)
      ? []
      : valid.errors!.map(({ instancePath, message, params }) => faultOf(instancePath, { message, params }));
  };
}

function faultOf(at: string, { message, params }: { message?: string | undefined; params: object }): string {
  return `${at} ${message} ${JSON.stringify(params)}`;
}

/** The same schema, which refuses what the server would drop in silence; what it says nothing of stays free. */
function closed(schema: unknown): any {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const inner: Record<string, unknown> = Object.fromEntries(
    Object.entries(schema).map(([name, member]) => [name, closed(member)]),
  );
  const isFixed = inner['type'] === 'object' && inner['properties'] !== undefined;
  const isFree = inner['additionalProperties'] !== undefined || inner['x-kubernetes-preserve-unknown-fields'] === true;
  return isFixed && !isFree ? { ...inner, additionalProperties: false } : inner;
}
