import path from 'node:path';
import { parseArgs } from 'node:util';
import { MODES } from './bench/modes/all.js';
import { runBench } from './bench/run.js';
import { FULL, QUICK, withSeconds } from './bench/scale.js';

const HELP = `Usage: npm run bench -- [mode…] [--quick] [--seconds N] [--json FILE]

Starts a Postgres and the service, puts load on them, prints a table for each mode and writes a report.

  mode         of ${Object.keys(MODES).join(', ')}; or all. \`table\` unless given
  --quick      seconds in place of minutes, to see that it works
  --seconds N  how long one measurement takes (10, or 2 with --quick)
  --json FILE  where the report goes (bench.json beside the compiled program)

Ends with 1 when a promise was not held.
`;

const exitCode = await main().catch((error: unknown) => {
  process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`);
  return 1;
});
process.exit(exitCode);

/** Answers the exit code. */
async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      quick: { type: 'boolean' },
      seconds: { type: 'string' },
      json: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help === true) {
    process.stdout.write(HELP);
    return 0;
  }
  const scale = values.quick === true ? QUICK : FULL;
  const seconds = values.seconds === undefined ? scale.seconds : Number(values.seconds);
  if (!(seconds > 0)) throw new Error('--seconds takes a number above 0');
  const json = path.resolve(values.json ?? path.join(import.meta.dirname, 'bench.json'));
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort());
  const { tables } = await runBench({
    modes: modesOf(positionals),
    scale: withSeconds(scale, seconds),
    json,
    print: (text) => process.stdout.write(`${text}\n`),
    say: (text) => process.stderr.write(`… ${text}\n`),
    signal: interrupted.signal,
  });
  process.stdout.write(`Written to ${json}\n`);
  return tables.every(({ rows }) => rows.every(({ held }) => held !== false)) ? 0 : 1;
}

function modesOf(given: readonly string[]): string[] {
  if (given.includes('all')) return Object.keys(MODES);
  return given.length === 0 ? ['table'] : [...given];
}
