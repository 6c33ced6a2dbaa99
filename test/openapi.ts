import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { buildOpenApi } from '../src/http/openapi.js';
import { operations } from '../src/operations.js';

const ROOT = new URL('../../', import.meta.url);
const FILE = new URL('openapi/stint.json', ROOT);

/** The text that `openapi/stint.json` should have. */
export function openApiText(): string {
  const { version } = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8')) as { version: string };
  return `${JSON.stringify(buildOpenApi(operations, version), null, 2)}\n`;
}

/** The text that it has. */
export function committedOpenApiText(): string {
  return readFileSync(FILE, 'utf8');
}

function main(flag: string | undefined): void {
  if (flag === '--write') return writeFileSync(FILE, openApiText());
  if (flag !== '--check') throw new Error('usage: node dist/test/openapi.js --write | --check');
  if (committedOpenApiText() === openApiText()) return;
  process.stderr.write('openapi/stint.json is out of date: npm run openapi\n');
  process.exitCode = 1;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) main(process.argv[2]);
