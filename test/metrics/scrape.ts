import assert from 'node:assert/strict';

export interface Series {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Family {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly series: readonly Series[];
}

/** A scrape by family. Throws for a line that is none of the format. */
export function readScrape(text: string): Family[] {
  const families: (Family & { series: Series[] })[] = [];
  let help = '';
  for (const line of text.split('\n').filter((each) => each !== '')) {
    const [, word, name, rest = ''] = /^# (HELP|TYPE) (\S+) ?(.*)$/.exec(line) ?? [];
    if (word === 'HELP') help = rest;
    else if (word === 'TYPE') families.push({ name: name!, type: rest, help, series: [] });
    else families.at(-1)!.series.push(readSeries(line));
  }
  return families;
}

function readSeries(line: string): Series {
  const [, name, labels = '', value] =
    /^([a-z_][a-z0-9_]*)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (\S+)$/.exec(line) ?? [];
  assert.ok(name !== undefined, `not a series: ${line}`);
  const pairs = [...labels.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)].map(([, label, text]) => [label, text]);
  return { name, labels: Object.fromEntries(pairs) as Record<string, string>, value: Number(value) };
}

/** Scrapes an instance. */
export async function scrape(base: string): Promise<Family[]> {
  return readScrape(await (await fetch(`${base}/metrics`)).text());
}

/** The sum of the series of these scrapes that bear the labels; undefined when there is none. */
export function sumOf(
  scrapes: readonly (readonly Family[])[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const found = scrapes
    .flat()
    .flatMap(({ series }) => series)
    .filter((each) => each.name === name)
    .filter((each) => Object.entries(labels).every(([label, value]) => each.labels[label] === value));
  return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0);
}
