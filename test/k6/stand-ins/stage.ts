export type Tags = Readonly<Record<string, string>>;
export type MetricType = 'counter' | 'rate' | 'trend';

export interface Sample {
  readonly metric: string;
  readonly value: number;
  readonly tags: Tags;
}

export interface ScenarioState {
  readonly name: string;
  readonly executor: string;
  /** 0 to 1. */
  readonly progress: number;
}

/** What k6 knows of the moment: in which phase it is, which iteration runs, what was measured so far. */
export interface Stage {
  phase: 'init' | 'setup' | 'iterations' | 'teardown';
  /** The folder of the script, from which paths are resolved. */
  folder: string;
  scenario: ScenarioState | undefined;
  readonly metrics: Map<string, MetricType>;
  readonly samples: Sample[];
}

/** One for each process: a process plays one script. */
export const stage: Stage = {
  phase: 'init',
  folder: '.',
  scenario: undefined,
  metrics: new Map([
    ['checks', 'rate'],
    ['data_received', 'counter'],
    ['data_sent', 'counter'],
    ['dropped_iterations', 'counter'],
    ['grpc_req_duration', 'trend'],
    ['http_req_duration', 'trend'],
    ['http_req_failed', 'rate'],
    ['http_reqs', 'counter'],
    ['iteration_duration', 'trend'],
    ['iterations', 'counter'],
  ]),
  samples: [],
};

/** Writes down one value, with the tags that k6 adds by itself. */
export function measure(metric: string, value: number, tags: Readonly<Record<string, unknown>> = {}): void {
  for (const [name, tag] of Object.entries(tags)) {
    if (typeof tag !== 'string') throw new Error(`the tag ${name} is no string`);
  }
  const own: Record<string, string> = {};
  if (stage.phase === 'setup' || stage.phase === 'teardown') own['group'] = `::${stage.phase}`;
  if (stage.scenario !== undefined) own['scenario'] = stage.scenario.name;
  stage.samples.push({ metric, value, tags: { ...own, ...(tags as Tags) } });
}

/** Fails like k6 where something is not to be had while the script is read. */
export function refuseInInit(what: string): void {
  if (stage.phase === 'init') throw new Error(`${what} is not to be had in the init context`);
}
