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
}

/** The files of `directory`, in order. Throws when their numbers are not 1, 2, 3 and so on. */
export async function readMigrations(directory = packagedDirectory()): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => /^\d+-.*\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (file, index) => {
      if (!/^\d{4}-[a-z0-9-]+\.sql$/.test(file) || Number(file.slice(0, 4)) !== index + 1) {
        const expected = String(index + 1).padStart(4, '0');
        throw new Error(
          `migrations/${file} should be named ${expected}-name.sql: numbers run without gap or repetition`,
        );
      }
      const sql = (await readFile(path.join(directory, file), 'utf8')).replaceAll('\r\n', '\n');
      const checksum = createHash('sha256').update(sql).digest('hex');
      return { number: index + 1, name: path.basename(file, '.sql'), sql, checksum };
    }),
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
