import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
export const CHART = path.join(ROOT, 'helm/stint');
export const HERE = path.join(ROOT, 'test/helm');
/** What the chart is rendered for, since a `helm` that Go has built knows no version of Kubernetes. */
export const KUBERNETES = '1.37.0';

/** An object of Kubernetes; its kind says what is in it. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly annotations?: Record<string, string> };
  readonly [member: string]: any;
}

/** The names of the value sets that the chart is tried with. */
export function valueSets(): string[] {
  return readdirSync(path.join(HERE, 'values')).map((name) => path.basename(name, '.yaml'));
}

/** On the PATH, or where `go install` puts it; undefined where it is not installed. */
export function findHelm(): string | undefined {
  const { error, stdout } = spawnSync('go', ['env', 'GOPATH'], { encoding: 'utf8' });
  const places = ['helm', ...(error === undefined ? [path.join(stdout.trim(), 'bin', 'helm')] : [])];
  return places.find((place) => spawnSync(place, ['version', '--short']).error === undefined);
}

/** What `helm template` prints for a value set and arguments of its own, and whether it went through. */
export function template(helm: string, args: readonly string[]): { ok: boolean; stdout: string; stderr: string } {
  const always = ['template', 'stint', CHART, '--namespace', 'jobs', '--kube-version', KUBERNETES];
  const { status, stdout, stderr } = spawnSync(helm, [...always, ...args], { encoding: 'utf8' });
  return { ok: status === 0, stdout, stderr };
}

/** The manifests of a value set, as text. Throws what helm says when it cannot render them. */
export function render(helm: string, name: string): string {
  const { ok, stdout, stderr } = template(helm, ['--values', path.join(HERE, 'values', `${name}.yaml`)]);
  if (!ok) throw new Error(`${name}: ${stderr}`);
  return stdout;
}

/** Where the golden text of a value set is. */
export function goldenFile(name: string): string {
  return path.join(HERE, 'golden', `${name}.yaml`);
}

/** The golden manifests of a value set: what the chart renders, also where there is no helm. */
export function golden(name: string): Manifest[] {
  return parseAllDocuments(readFileSync(goldenFile(name), 'utf8'))
    .map((document) => document.toJS() as Manifest | null)
    .filter((manifest) => manifest !== null);
}
