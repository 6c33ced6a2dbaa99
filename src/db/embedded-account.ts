import { execFile } from 'node:child_process';
import { chmod, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { childEnvironment, reasonOf } from './embedded-binaries.js';

const execute = promisify(execFile);
const CANDIDATES = ['postgres', 'stint'];

/** The user that Postgres runs as, where it is not the service's own. */
export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/**
 * Postgres refuses to run as root: as root, the owner of `directory` if that is somebody else, else the user postgres or
 * stint, else a system user stint made here. Undefined when Postgres can run as the service's own user.
 */
export async function accountFor(directory: string): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const owner = await stat(directory).catch(() => undefined);
  if (owner !== undefined && owner.uid !== 0) {
    return { name: `uid ${owner.uid}`, uid: owner.uid, gid: owner.gid };
  }
  for (const name of CANDIDATES) {
    const account = await lookUp(name);
    if (account !== undefined) return account;
  }
  await createUser();
  const created = await lookUp('stint');
  if (created === undefined) throw new Error('the system user stint was made but cannot be found');
  return created;
}

/** Gives `account` search permission on `directory` and on the way to it; answers the directories it opened. */
export async function openPath(directory: string, account: Account): Promise<string[]> {
  const opened: string[] = [];
  for (let step = await realpath(directory); ; step = path.dirname(step)) {
    if (!(await mayPass(step, account))) {
      await openDirectory(step, account);
      opened.push(step);
    }
    if (path.dirname(step) === step) return opened;
  }
}

async function mayPass(directory: string, account: Account): Promise<boolean> {
  const { mode, uid, gid } = await stat(directory);
  if (uid === account.uid) return (mode & 0o100) !== 0;
  if (gid === account.gid) return (mode & 0o010) !== 0;
  return (mode & 0o001) !== 0;
}

async function openDirectory(directory: string, account: Account): Promise<void> {
  const { mode } = await stat(directory);
  try {
    await chmod(directory, (mode & 0o7777) | 0o001);
  } catch (error) {
    throw new Error(standsInTheWay(directory, account, reasonOf(error)), { cause: error });
  }
  if (!(await mayPass(directory, account))) {
    throw new Error(standsInTheWay(directory, account, 'its owner or group has no search permission'));
  }
}

function standsInTheWay(directory: string, account: Account, reason: string): string {
  return (
    `the embedded Postgres runs as ${account.name} and cannot pass ${directory} (${reason}): ` +
    `allow it to (chmod o+x ${directory}), choose another STINT_DATA_DIR, or set STINT_DATABASE_URL`
  );
}

async function lookUp(name: string): Promise<Account | undefined> {
  try {
    const [uid, gid] = await Promise.all([id('-u', name), id('-g', name)]);
    return uid === 0 ? undefined : { name, uid, gid };
  } catch {
    // `id` fails for a name that does not exist: that is the answer.
    return undefined;
  }
}

async function id(flag: string, name: string): Promise<number> {
  const { stdout } = await execute('id', [flag, name], { env: childEnvironment() });
  return Number(stdout.trim());
}

/** Debian, Fedora and their kin have useradd, Alpine and BusyBox images adduser with flags of its own. */
async function createUser(): Promise<void> {
  const nowhere = ['/usr/sbin/nologin', '/nonexistent'] as const;
  const attempts: [string, string[]][] = [
    [
      'useradd',
      ['--system', '--user-group', '--no-create-home', '--home-dir', nowhere[1], '--shell', nowhere[0], 'stint'],
    ],
    ['adduser', ['-S', '-D', '-H', '-h', nowhere[1], '-s', '/sbin/nologin', 'stint']],
  ];
  const reasons: string[] = [];
  for (const [command, args] of attempts) {
    try {
      await execute(command, args, { env: childEnvironment() });
      return;
    } catch (error) {
      reasons.push(`${command}: ${reasonOf(error)}`);
    }
  }
  throw new Error(
    'Postgres refuses to run as root and no other user could be made ' +
      `(${reasons.join('; ')}): run the service as a normal user, or add a system user named stint`,
  );
}
