import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { access, chown, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { type Account, openPath } from './embedded-account.js';
import { type Binaries, childEnvironment, majorVersion, reasonOf } from './embedded-binaries.js';

const execute = promisify(execFile);

export const SUPERUSER = 'stint';

/** A data directory that Postgres can start on. */
export interface Cluster {
  /** Postgres's own data directory. */
  readonly directory: string;
  readonly password: string;
  /** Directories on the way that were given search permission. */
  readonly opened: readonly string[];
}

export interface ClusterParts {
  /** The service's data directory; exists. */
  readonly dataDirectory: string;
  readonly binaries: Binaries;
  readonly account: Account | undefined;
}

/** Where the user that runs Postgres has everything of its own. */
export function ownedDirectory(dataDirectory: string): string {
  return path.join(dataDirectory, 'postgres');
}

/** Makes the cluster on first use, and what Postgres needs to reach it on each. Throws where it cannot, and says why. */
export async function prepareCluster(parts: ClusterParts): Promise<Cluster> {
  const owned = ownedDirectory(parts.dataDirectory);
  const directory = path.join(owned, 'data');
  await mkdir(owned, { recursive: true, mode: 0o700 });
  const opened = parts.account === undefined ? [] : await openWay(parts, parts.account);
  const fresh = !(await exists(path.join(directory, 'PG_VERSION')));
  const password = await passwordOf(parts.dataDirectory, fresh);
  if (fresh) await create(parts, directory, password);
  else await checkExisting(parts, directory);
  return { directory, password, opened };
}

async function openWay(parts: ClusterParts, account: Account): Promise<string[]> {
  await chown(ownedDirectory(parts.dataDirectory), account.uid, account.gid);
  const { home, postgres } = parts.binaries;
  const opened: string[] = [];
  for (const directory of [
    parts.dataDirectory,
    path.dirname(postgres),
    path.join(home, 'lib'),
    path.join(home, 'share'),
  ]) {
    if (await exists(directory)) opened.push(...(await openPath(directory, account)));
  }
  try {
    await execute(postgres, ['--version'], { env: childEnvironment(), uid: account.uid, gid: account.gid, cwd: '/' });
  } catch (error) {
    throw new Error(
      `the embedded Postgres runs as ${account.name}, who cannot run ${postgres} (${reasonOf(error)}): ` +
        `make it readable (chmod -R o+rX ${home}), or set STINT_DATABASE_URL`,
      { cause: error },
    );
  }
  return opened;
}

/** Written before the cluster is made, so that no cluster exists whose password is lost. */
async function passwordOf(dataDirectory: string, fresh: boolean): Promise<string> {
  const file = path.join(dataDirectory, 'postgres-password');
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  if (!fresh) {
    throw new Error(`${file} is missing: restore it, or remove ${dataDirectory} to start with an empty database`);
  }
  const password = randomBytes(24).toString('base64url');
  await writeFile(file, `${password}\n`, { mode: 0o600, flag: 'wx' });
  return password;
}

/** Made beside its place and moved there whole: a start that is killed half-way leaves nothing that looks like a cluster. */
async function create(parts: ClusterParts, directory: string, password: string): Promise<void> {
  if (await exists(directory)) throw new Error(`${directory} exists but holds no Postgres data: remove it`);
  const draft = `${directory}.new`;
  const passwordFile = `${directory}.password`;
  await rm(draft, { recursive: true, force: true });
  await rm(passwordFile, { force: true });
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  const { account } = parts;
  if (account !== undefined) await chown(passwordFile, account.uid, account.gid);
  const args = ['-D', draft, '-U', SUPERUSER, `--pwfile=${passwordFile}`, '--auth=scram-sha-256', '--encoding=UTF8'];
  args.push('--locale=C', '--data-checksums', '--no-instructions');
  try {
    await execute(parts.binaries.initdb, args, {
      env: childEnvironment(),
      cwd: path.dirname(directory),
      ...idsOf(account),
    });
    await rename(draft, directory);
  } catch (error) {
    throw new Error(`Postgres cannot make its data directory ${directory}: ${reasonOf(error)}`, { cause: error });
  } finally {
    await rm(passwordFile, { force: true });
  }
}

async function checkExisting(parts: ClusterParts, directory: string): Promise<void> {
  const [made, runs] = await Promise.all([
    readFile(path.join(directory, 'PG_VERSION'), 'utf8').then((text) => text.trim()),
    majorVersion(parts.binaries),
  ]);
  if (made !== runs) {
    throw new Error(
      `${directory} was made by PostgreSQL ${made} and this is PostgreSQL ${runs}: move the data over with pg_dump and ` +
        'pg_restore, choose another STINT_DATA_DIR, or remove it to start with an empty database',
    );
  }
  const { uid } = await stat(directory);
  const runner = parts.account?.uid ?? process.getuid?.();
  if (runner !== undefined && uid !== runner) {
    throw new Error(
      `${directory} belongs to uid ${uid}, and Postgres would run as uid ${runner}: start as its owner or as root`,
    );
  }
}

/** How a child is made to run as `account`. */
export function idsOf(account: Account | undefined): { uid?: number; gid?: number } {
  return account === undefined ? {} : { uid: account.uid, gid: account.gid };
}

async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}
