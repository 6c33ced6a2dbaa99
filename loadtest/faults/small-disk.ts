import { execFile, execFileSync } from 'node:child_process';
import { chown, mkdir, rm, stat, statfs, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const SIZE = '512m';
const PIECE = Buffer.alloc(1024 * 1024, 1);

/** A file system of its own, in memory, small enough to be filled. */
export interface SmallDisk {
  /** For Postgres to keep a tablespace in. */
  readonly directory: string;
  /** Takes all room that is left. */
  fill(): Promise<void>;
  /** Gives it back. */
  relieve(): Promise<void>;
  remove(): Promise<void>;
}

/** Mounts one at `place` for the owner of `like`; undefined where this user may not, or the system has no tmpfs. */
export async function mountSmallDisk(place: string, like: string): Promise<SmallDisk | undefined> {
  await mkdir(place);
  try {
    await execute('mount', ['-t', 'tmpfs', '-o', `size=${SIZE},mode=0755`, 'tmpfs', place]);
  } catch {
    // Not root, not Linux, or a container without the right to mount: the fault is skipped by name.
    return undefined;
  }
  const leaveNone = (): void => void execFileSync('umount', ['--lazy', place]);
  process.once('exit', leaveNone);
  const directory = path.join(place, 'tablespace');
  const ballast = path.join(place, 'ballast');
  const { uid, gid } = await stat(like);
  await mkdir(directory);
  await chown(directory, uid, gid);
  return {
    directory,
    fill: () => fill(place, ballast),
    relieve: () => rm(ballast, { force: true }),
    remove: async () => {
      process.removeListener('exit', leaveNone);
      await execute('umount', [place]);
    },
  };
}

async function fill(place: string, ballast: string): Promise<void> {
  const { bavail, bsize } = await statfs(place);
  await writeFile(ballast, '');
  for (let left = bavail * bsize; left > 0; left -= PIECE.length) {
    try {
      await writeFile(ballast, PIECE.subarray(0, Math.min(left, PIECE.length)), { flag: 'a' });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return;
      throw error;
    }
  }
}
