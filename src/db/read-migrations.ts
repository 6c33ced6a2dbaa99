import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** One file `NNNN-name.sql`. */
export interface Migration {
  readonly number: number;
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of the text, line ends unified. */
  readonly checksum: string;
  /**
   * Versions that know the migrations up to this number still work with the database after this one. From the line
   * `-- compatible-from: N`; the own number without one, so that what says nothing shuts older versions out.
   */
  readonly compatibleFrom: number;
  /** The index that is built concurrently: then the statement is the only one, and runs outside of a transaction. */
  readonly concurrentIndex: string | undefined;
}

const COMPATIBLE_FROM = /^-- compatible-from: (.*)$/m;
const CONCURRENTLY = /\bindex\s+concurrently\b/i;
const ONE_CONCURRENTLY =
  /^\s*(?:create\s+(?:unique\s+)?index\s+concurrently\s+([a-z_][a-z0-9_]*)\s+on\s|drop\s+index\s+concurrently\s+if\s+exists\s+([a-z_][a-z0-9_]*)\s*;)[^;]*;?\s*$/i;

/** The files of `directory`, in order. Throws Error when their numbers are not 1, 2, 3 and so on, or when one says what it must not. */
export async function readMigrations(directory = packagedDirectory()): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => /^\d+-.*\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (file, index) => {
      const number = index + 1;
      if (!/^\d{4}-[a-z0-9-]+\.sql$/.test(file) || Number(file.slice(0, 4)) !== number) {
        const expected = String(number).padStart(4, '0');
        throw new Error(
          `migrations/${file} should be named ${expected}-name.sql: numbers run without gap or repetition`,
        );
      }
      const sql = (await readFile(path.join(directory, file), 'utf8')).replaceAll('\r\n', '\n');
      const checksum = createHash('sha256').update(sql).digest('hex');
      const [compatibleFrom, concurrentIndex] = [compatibleFromOf(sql, number), concurrentIndexOf(sql, file)];
      return { number, name: path.basename(file, '.sql'), sql, checksum, compatibleFrom, concurrentIndex };
    }),
  );
}

/** The text without its comments. */
export function withoutComments(sql: string): string {
  return sql.replaceAll(/--.*$/gm, '').replaceAll(/\/\*[^]*?\*\//g, '');
}

function compatibleFromOf(sql: string, number: number): number {
  const given = COMPATIBLE_FROM.exec(sql)?.[1];
  if (given === undefined) return number;
  const from = Number(given);
  if (!Number.isInteger(from) || from < 1 || from > number) {
    throw new Error(`migration ${number}: compatible-from must be a number from 1 to ${number}, not ${given}`);
  }
  return from;
}

function concurrentIndexOf(sql: string, file: string): string | undefined {
  const text = withoutComments(sql);
  if (!CONCURRENTLY.test(text)) return undefined;
  const [, created, dropped] = ONE_CONCURRENTLY.exec(text) ?? [];
  const name = created ?? dropped;
  if (name !== undefined) return name;
  throw new Error(
    `migrations/${file}: an index is built concurrently outside of a transaction, so a migration must be this one statement, ` +
      '`create [unique] index concurrently name on …` or `drop index concurrently if exists name`',
  );
}

/** Sources and compiled files lie at different depths below the package's root. */
function packagedDirectory(): string {
  for (let step = path.dirname(fileURLToPath(import.meta.url)); ; step = path.dirname(step)) {
    const candidate = path.join(step, 'migrations');
    if (existsSync(candidate)) return candidate;
    if (path.dirname(step) === step) throw new Error('the directory migrations is missing from this installation');
  }
}
