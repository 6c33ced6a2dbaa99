import { readFileSync } from 'node:fs';

const OPERATIONS = new URL('../../../docs/operations.md', import.meta.url);

/** The SQL blocks under a heading of docs/operations.md, in order. */
export function documentedSql(heading: string): string[] {
  const text = readFileSync(OPERATIONS, 'utf8');
  const start = text.indexOf(`\n${heading}\n`);
  if (start < 0) throw new Error(`docs/operations.md has no heading ${heading}`);
  const section = text.slice(start + 1 + heading.length).split(/\n##/)[0]!;
  return [...section.matchAll(/^```sql\n(.*?)^```$/gms)].map(([, sql]) => sql!);
}
