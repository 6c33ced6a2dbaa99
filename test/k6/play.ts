/**
 * Plays a k6 script through the stand-ins: `node play.js SCRIPT ROUNDS [DATA [SCENARIO]]`, settings by environment; writes a report as JSON. With what the setup
 * of another run has answered, it joins that run, without setup and
 * teardown, with one of its scenarios or all.
 */
import { register } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { stage } from './stand-ins/stage.js';
import { judge, type Verdict } from './thresholds.js';

export interface Report {
  /** What setup has answered. */
  readonly data: any;
  /** By name: how often it was right, and how often wrong. */
  readonly checks: Readonly<Record<string, { readonly right: number; readonly wrong: number }>>;
  /** By what was called: the statuses, each once. */
  readonly statuses: Readonly<Record<string, readonly string[]>>;
  /** Sums of the script's own counters, and of rates the number of times it was so; by `name` and by `name{tenant}`. */
  readonly sums: Readonly<Record<string, number>>;
  readonly verdicts: readonly Verdict[];
}

interface Script {
  readonly options: {
    readonly scenarios: Record<string, Scenario>;
    readonly thresholds: Record<string, readonly unknown[]>;
  };
  setup(): unknown;
  teardown(data: unknown): void;
  readonly [name: string]: unknown;
}

interface Scenario {
  readonly executor: string;
  readonly exec: string;
  readonly [name: string]: unknown;
}

const DURATION = /^(\d+(\.\d+)?(h|m|s|ms))+$/;
const DURATIONS = ['duration', 'startTime', 'gracefulStop', 'maxDuration', 'timeUnit'];

const [file, rounds, joined, only] = process.argv.slice(2) as [string, string, string?, string?];
try {
  process.stdout.write(JSON.stringify(await play(path.resolve(file), Number(rounds))));
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 107;
}

async function play(source: string, times: number): Promise<Report> {
  register('./stand-ins/resolve.js', import.meta.url);
  stage.folder = path.dirname(source);
  Object.assign(globalThis, { __ENV: { ...process.env } });
  const script = (await import(pathToFileURL(source).href)) as Script;
  for (const [name, scenario] of Object.entries(script.options.scenarios)) refuseMalformed(name, scenario, script);
  stage.phase = 'setup';
  const data: unknown = JSON.parse(joined ?? JSON.stringify(script.setup()));
  stage.phase = 'iterations';
  for (let round = 0; round < times; round += 1) iterate(script, data, { round, times });
  stage.phase = 'teardown';
  if (joined === undefined) script.teardown(data);
  // One scenario alone does not measure all that the thresholds are about.
  const thresholds = only === undefined ? script.options.thresholds : {};
  return { data, ...summary(), verdicts: judge(thresholds, stage.metrics, stage.samples) };
}

/** One iteration of each scenario, in their order, by a virtual user of its own. */
function iterate(script: Script, data: unknown, { round, times }: { round: number; times: number }): void {
  for (const [name, { executor, exec }] of Object.entries(script.options.scenarios)) {
    if (only !== undefined && only !== name) continue;
    stage.scenario = { name, executor, progress: round / times };
    (script[exec] as (data: unknown) => void)(data);
  }
  stage.scenario = undefined;
}

/** The options' types are checked by the compiler; this is what types cannot say. */
function refuseMalformed(name: string, scenario: Scenario, script: Script): void {
  if (typeof script[scenario.exec] !== 'function') throw new Error(`${name}: there is no function ${scenario.exec}`);
  const stages = (scenario['stages'] ?? []) as { duration: string; target: number }[];
  const durations = [
    ...DURATIONS.flatMap((field) => (scenario[field] === undefined ? [] : [scenario[field]])),
    ...stages.map(({ duration }) => duration),
  ];
  for (const duration of durations) {
    if (typeof duration !== 'string' || !DURATION.test(duration)) {
      throw new Error(`${name}: ${JSON.stringify(duration)} is no duration`);
    }
  }
  const { preAllocatedVUs, maxVUs } = scenario as { preAllocatedVUs?: number; maxVUs?: number };
  if (preAllocatedVUs !== undefined && maxVUs !== undefined && maxVUs < preAllocatedVUs) {
    throw new Error(`${name}: maxVUs is less than preAllocatedVUs`);
  }
}

function summary(): Pick<Report, 'checks' | 'statuses' | 'sums'> {
  const checks: Record<string, { right: number; wrong: number }> = {};
  const statuses: Record<string, string[]> = {};
  const sums: Record<string, number> = {};
  for (const { metric, value, tags } of stage.samples) {
    if (metric === 'checks') {
      const counts = (checks[tags['check']!] ??= { right: 0, wrong: 0 });
      counts[value === 1 ? 'right' : 'wrong'] += 1;
    } else if (metric === 'http_reqs' || metric === 'grpc_req_duration') {
      const seen = (statuses[tags['op'] ?? ''] ??= []);
      const status = metric === 'http_reqs' ? tags['status']! : `grpc ${tags['status']!}`;
      if (!seen.includes(status)) seen.push(status);
    } else if (metric.startsWith('stint_')) {
      sums[metric] = (sums[metric] ?? 0) + value;
      const ofTenant = `${metric}{${tags['tenant'] ?? ''}}`;
      sums[ofTenant] = (sums[ofTenant] ?? 0) + value;
    }
  }
  return { checks, statuses, sums };
}
