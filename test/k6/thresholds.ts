import type { MetricType, Sample } from './stand-ins/stage.js';

export interface Verdict {
  /** As in the options: `metric` or `metric{tag:value}`. */
  readonly key: string;
  readonly expression: string;
  readonly value: number;
  readonly isHeld: boolean;
  /** Latencies are the machine's; whether they are held says nothing of the script. */
  readonly isLatency: boolean;
}

/** Metrics that are there without a value when all is well. */
const MAY_BE_EMPTY = ['dropped_iterations'];
const KEY = /^([a-z0-9_]+)(?:\{([a-z_]+:[^,}]+(?:,[a-z_]+:[^,}]+)*)\})?$/;
const EXPRESSION = /^(avg|min|max|med|p\((\d+(?:\.\d+)?)\)|rate|count)(<=|>=|==|!=|<|>)(\d+(?:\.\d+)?)$/;
const AGGREGATES: Readonly<Record<MetricType, RegExp>> = {
  counter: /^(count|rate)$/,
  rate: /^rate$/,
  trend: /^(avg|min|max|med|p\(.*\))$/,
};

/**
 * Judges a script's thresholds by what was measured. Throws where one is malformed, is about a metric that does not exist, or about tags
 * that nothing measured has: k6 takes that for held.
 */
export function judge(
  thresholds: Readonly<Record<string, readonly unknown[]>>,
  metrics: ReadonlyMap<string, MetricType>,
  samples: readonly Sample[],
): Verdict[] {
  return Object.entries(thresholds).flatMap(([key, expressions]) => {
    const [, metric, selector] = KEY.exec(key) ?? [];
    if (metric === undefined) throw new Error(`not a threshold's name: ${key}`);
    const type = metrics.get(metric);
    if (type === undefined) throw new Error(`there is no metric ${metric}`);
    const wanted = (selector?.split(',') ?? []).map((pair) => pair.split(':') as [string, string]);
    const chosen = samples.filter(
      (sample) => sample.metric === metric && wanted.every(([name, value]) => sample.tags[name] === value),
    );
    if (chosen.length === 0 && !MAY_BE_EMPTY.includes(metric)) throw new Error(`nothing was measured for ${key}`);
    const values = chosen.map(({ value }) => value).sort((a, b) => a - b);
    return expressions.map((expression) => verdict({ key, expression, type, values }));
  });
}

function verdict(of: { key: string; expression: unknown; type: MetricType; values: readonly number[] }): Verdict {
  const { key, expression, type, values } = of;
  const [, aggregate, percentile, operator, bound] =
    typeof expression === 'string' ? (EXPRESSION.exec(expression) ?? []) : [];
  if (aggregate === undefined || !AGGREGATES[type].test(aggregate)) {
    throw new Error(`not a threshold of a ${type}: ${key} ${String(expression)}`);
  }
  const value = aggregateOf(aggregate, percentile, values, type);
  return {
    key,
    expression: expression as string,
    value,
    isHeld: compare(value, operator!, Number(bound)),
    isLatency: type === 'trend',
  };
}

function aggregateOf(aggregate: string, percentile: string | undefined, values: readonly number[], type: MetricType) {
  const sum = values.reduce((all, value) => all + value, 0);
  if (aggregate === 'count') return sum;
  if (aggregate === 'rate' && type === 'rate') return sum / values.length;
  if (aggregate === 'avg') return sum / values.length;
  if (aggregate === 'min') return values[0]!;
  if (aggregate === 'max') return values.at(-1)!;
  if (aggregate === 'rate') throw new Error('the rate of a counter is not stood in for');
  const rank = Math.ceil((Number(percentile ?? 50) / 100) * values.length);
  return values[Math.max(0, rank - 1)]!;
}

function compare(value: number, operator: string, bound: number): boolean {
  if (operator === '<') return value < bound;
  if (operator === '<=') return value <= bound;
  if (operator === '>') return value > bound;
  if (operator === '>=') return value >= bound;
  return operator === '==' ? value === bound : value !== bound;
}
