import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { isMap, isScalar, type Pair, parseDocument, type YAMLMap } from 'yaml';
import { CHART } from './chart.js';

const FILE = path.join(CHART, 'README.md');
const START = '<!-- values: generated from values.yaml -->';

interface Row {
  readonly name: string;
  readonly preset: string;
  readonly meaning: string;
}

/** The README that is there, with the table of values that values.yaml calls for. */
export function readmeText(): string {
  const [written] = committedReadme().split(START);
  const document = parseDocument(readFileSync(path.join(CHART, 'values.yaml'), 'utf8'));
  const rows = rowsOf(document.contents as YAMLMap, { path: [], comment: document.commentBefore ?? '' });
  const lines = rows.map(({ name, preset, meaning }) => `| \`${name}\` | ${preset} | ${meaning} |`);
  return `${written!}${START}\n\n| Value | Default | Meaning |\n| --- | --- | --- |\n${lines.join('\n')}\n`;
}

/** The README as it is. */
export function committedReadme(): string {
  return readFileSync(FILE, 'utf8');
}

/** The first key's comment is the map's, by the rules of the parser; of the values only what is above a key counts. */
function rowsOf(map: YAMLMap, above: { path: readonly string[]; comment: string }): Row[] {
  return map.items.flatMap((pair, index) => {
    const { key, value } = pair as Pair<{ value: string; commentBefore?: string | null }>;
    const own = key.commentBefore ?? (index === 0 ? (map.commentBefore ?? above.comment) : '');
    const at = [...above.path, key.value];
    const row = { name: at.join('.'), meaning: cell(own) };
    if (!isMap(value) || value.items.length === 0 || value.flow === true || isWhole(at)) {
      return [{ ...row, preset: `\`${presetOf(value)}\`` }];
    }
    const inner = rowsOf(value, { path: at, comment: '' });
    return row.meaning === '' ? inner : [{ ...row, preset: '' }, ...inner];
  });
}

/** Maps that Kubernetes describes, or that are free: one row each. */
function isWhole(at: readonly string[]): boolean {
  return /^(updateStrategy|(podS|s)ecurityContext)$|(^|\.)(resources|parameters)$/.test(at.join('.'));
}

function presetOf(value: unknown): string {
  const plain: unknown = isScalar(value) ? value.value : (value as YAMLMap).toJSON();
  return JSON.stringify(plain).replaceAll('|', '\\|');
}

function cell(comment: string): string {
  return comment
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join(' ')
    .replaceAll('|', '\\|');
}

function main(flag: string | undefined): void {
  if (flag !== '--write') throw new Error('usage: node dist/test/helm/readme.js --write');
  writeFileSync(FILE, readmeText());
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) main(process.argv[2]);
