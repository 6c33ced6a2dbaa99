import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { configurationTable, relayConfigurationTable, tracingConfigurationTable } from '../src/config.js';

const FILE = new URL('../../docs/configuration.md', import.meta.url);

/** The text that `docs/configuration.md` should have. */
export function configurationText(): string {
  return `# Configuration

Environment variables, read once at start. One that begins with \`STINT_\` and is not here, or holds something that is not
accepted, stops the start with a sentence for each fault. This page is generated from \`src/config.ts\`:
\`npm run build && node dist/test/configuration.js --write\`.

${configurationTable()}
## Traces

Of OpenTelemetry's variables the service reads these, and only when one of the first two is set: see [tracing.md](tracing.md). As its
specification has it, what is empty is not set. A wrong value stops the start like those above; with neither endpoint none of them is looked at.

${tracingConfigurationTable()}
## The relay

\`stint relay\` reads these and \`STINT_LOG_LEVEL\`, and none of the above; the service reads none of these. See [relay.md](relay.md).

${relayConfigurationTable()}`;
}

/** The text that it has. */
export function committedConfiguration(): string {
  return readFileSync(FILE, 'utf8');
}

function main(flag: string | undefined): void {
  if (flag !== '--write') throw new Error('usage: node dist/test/configuration.js --write');
  writeFileSync(FILE, configurationText());
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) main(process.argv[2]);
