import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** The compiled code, and what lies beside it in the package. */
const DIST = path.join(import.meta.dirname, '../..');
const PACKAGE = path.join(DIST, '..');

export interface NewerVersion {
  /** Its compiled `main.js`. */
  readonly main: string;
  readonly migrations: string;
  remove(): Promise<void>;
}

/** A later release, as far as the database can tell: this code with another version and further migrations, in a directory of its own. */
export async function makeNewerVersion(
  version: string,
  migrations: Readonly<Record<string, string>>,
): Promise<NewerVersion> {
  const directory = await mkdtemp(path.join(tmpdir(), 'stint-newer-'));
  const within = (...names: string[]): string => path.join(directory, ...names);
  await cp(path.join(DIST, 'src'), within('dist', 'src'), { recursive: true });
  for (const name of ['migrations', 'proto', 'openapi', 'src/relay']) {
    await cp(path.join(PACKAGE, name), within(name), { recursive: true, dereference: true });
  }
  await symlink(path.join(PACKAGE, 'node_modules'), within('node_modules'));
  const description = JSON.parse(await readFile(path.join(PACKAGE, 'package.json'), 'utf8')) as object;
  await writeFile(within('package.json'), JSON.stringify({ ...description, version }));
  for (const [name, sql] of Object.entries(migrations)) await writeFile(within('migrations', name), sql);
  return {
    main: within('dist', 'src', 'main.js'),
    migrations: within('migrations'),
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}
