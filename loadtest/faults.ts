import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { type Plant, PLANTS, SHOWN_BY } from './faults/plants.js';
import { reportOf } from './faults/report.js';
import { type RunResult, runSeed } from './faults/run.js';

const HELP = `Usage: npm run faults -- [options]

Two services and a Postgres under load, faults from a seeded schedule, then the verdict: is anything lost, leased twice or acked by
an old token? A seed replays its schedule and the choices of producers and workers, as far as timing lets.

  --seed N       the first seed; 1 unless given
  --seeds N      how many seeds, one after another; 1 unless given
  --seconds S    how long faults are injected in a run; 40 unless given
  --jobs N       jobs offered in a run; 12000 unless given
  --plant NAME   plant a fault in the services: ${PLANTS.join(', ')}. Ends at the first seed that finds it
  --json FILE    write the results there too
  --keep         leave journals and logs of a run with breaches
  --verbose      tell of each step

Exit code: 0 when every rule held (with --plant: when a seed found the fault), 1 when not, 2 when the harness itself failed.
`;

// What runs is taken along by exit hooks.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

process.exitCode = await main().catch((error: unknown) => {
  process.stderr.write(`faults: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  return 2;
});

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string', default: '1' },
      seeds: { type: 'string', default: '1' },
      seconds: { type: 'string', default: '40' },
      jobs: { type: 'string', default: '12000' },
      plant: { type: 'string' },
      json: { type: 'string' },
      keep: { type: 'boolean', default: false },
      verbose: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const first = whole('seed', values.seed);
  const plant = plantOf(values.plant);
  const results: RunResult[] = [];
  for (let seed = first; seed < first + whole('seeds', values.seeds); seed += 1) {
    const result = await runSeed({
      seed,
      seconds: whole('seconds', values.seconds),
      jobs: whole('jobs', values.jobs),
      plant,
      keep: values.keep,
      say: (line) => values.verbose && process.stdout.write(`  ${line}\n`),
    });
    results.push(result);
    process.stdout.write(reportOf(result));
    if (plant !== undefined && isFound(plant, result)) break;
  }
  if (results.length > 1) process.stdout.write(totalOf(results));
  if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(results, undefined, 2)}\n`);
  if (plant === undefined) return results.some(({ breaches }) => breaches.length > 0) ? 1 : 0;
  const found = isFound(plant, results.at(-1)!);
  process.stdout.write(`The planted fault «${plant}» was ${found ? '' : 'not '}found in ${results.length} seeds.\n`);
  return found ? 0 : 1;
}

function isFound(plant: Plant, { breaches }: RunResult): boolean {
  return breaches.some(({ rule }) => SHOWN_BY[plant].includes(rule));
}

function whole(name: string, text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new Error(`--${name} must be a whole number from 1 on`);
  return Number(text);
}

function plantOf(name: string | undefined): Plant | undefined {
  const plant = PLANTS.find((known) => known === name);
  if (name !== undefined && plant === undefined) throw new Error(`--plant must be one of ${PLANTS.join(', ')}`);
  return plant;
}

function totalOf(results: readonly RunResult[]): string {
  const sum = (of: (result: RunResult) => number): number => results.reduce((total, result) => total + of(result), 0);
  const faults = sum((result) => result.faults.filter(({ skipped }) => skipped === undefined).length);
  return `${results.length} seeds: ${faults} faults, ${sum(({ offered }) => offered)} jobs offered, ${sum(({ accepted }) => accepted)} accepted, ${sum(({ acked }) => acked)} acked, ${sum(({ redelivered }) => redelivered)} redelivered, ${sum(({ breaches }) => breaches.length)} breaches\n`;
}
