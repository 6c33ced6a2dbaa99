import { median } from './statistics.js';

/** A line of the table. */
export interface Row {
  readonly measurement: string;
  readonly value: number;
  readonly unit: string;
  /** Of the rounds whose median the value is. */
  readonly low?: number;
  readonly high?: number;
  /** What was promised, in words. */
  readonly promise?: string;
  readonly held?: boolean;
}

/** What a mode has found. */
export interface Table {
  readonly mode: string;
  readonly title: string;
  readonly rows: readonly Row[];
  /** Conditions a reader has to know. */
  readonly notes: readonly string[];
  /** Values over time, where a mode shows them. */
  readonly series?: Readonly<Record<string, readonly number[]>>;
}

type Promised = Pick<Row, 'promise' | 'held'>;

/** A row of the median of several rounds. */
export function medianRow(measurement: string, unit: string, rounds: readonly number[], promised: Promised = {}): Row {
  return {
    measurement,
    value: median(rounds),
    unit,
    ...(rounds.length > 1 ? { low: Math.min(...rounds), high: Math.max(...rounds) } : {}),
    ...promised,
  };
}

export function row(measurement: string, value: number, unit: string, promised: Promised = {}): Row {
  return { measurement, value, unit, ...promised };
}

/** That a value is at least this. */
export function atLeast(bound: number, value: number, unit: string): Promised {
  return { promise: `≥ ${inShort(bound)} ${unit}`, held: value >= bound };
}

/** That a value is at most this. */
export function atMost(bound: number, value: number, unit: string): Promised {
  return { promise: `≤ ${inShort(bound)} ${unit}`, held: value <= bound };
}

const inShort = (bound: number): number => Number(bound.toPrecision(4));

/** The rate of one over that of another, round by round, in percent, and what was promised of its median. */
export function ratioRow(
  measurement: string,
  rounds: { readonly of: readonly number[]; readonly to: readonly number[] },
  promisedPercent?: number,
): Row {
  const ratios = rounds.of.map((value, index) => (100 * value) / rounds.to[index]!);
  if (promisedPercent === undefined) return medianRow(measurement, '%', ratios);
  return medianRow(measurement, '%', ratios, atLeast(promisedPercent, median(ratios), '%'));
}

const HEAD = ['measurement', 'value', 'unit', 'min–max', 'promise', 'held'];

/** The table as text, columns aligned. */
export function printed({ mode, title, rows, notes, series = {} }: Table): string {
  const cells = rows.map((each) => [
    each.measurement,
    shown(each.value),
    each.unit,
    each.low === undefined || each.high === undefined ? '' : `${shown(each.low)}–${shown(each.high)}`,
    each.promise ?? '',
    each.held === undefined ? '' : each.held ? 'yes' : 'NO',
  ]);
  const widths = HEAD.map((head, column) => Math.max(head.length, ...cells.map((cell) => cell[column]!.length)));
  const line = (cell: readonly string[]): string =>
    cell
      .map((text, column) => (column === 1 ? text.padStart(widths[column]!) : text.padEnd(widths[column]!)))
      .join('  ')
      .trimEnd();
  const shownSeries = Object.entries(series).map(([name, values]) => `  ${name}: ${values.map(shown).join(' ')}`);
  return [
    `${mode}: ${title}`,
    '',
    line(HEAD),
    line(widths.map((width) => '-'.repeat(width))),
    ...cells.map(line),
    ...shownSeries,
    ...notes.map((note) => `  ${note}`),
    '',
  ].join('\n');
}

function shown(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-US');
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}
