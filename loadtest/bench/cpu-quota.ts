import { access, mkdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const V1 = '/sys/fs/cgroup/cpu';
const V2 = '/sys/fs/cgroup';
const PERIOD_US = 100_000;
const REMOVE_TRIES = 50;

export interface CpuQuota {
  remove(): Promise<void>;
}

/** Why this machine does not let us bound the processor time of a process; undefined when it does. */
export async function noQuotaBecause(): Promise<string | undefined> {
  if (process.platform !== 'linux') return 'control groups are a thing of Linux';
  try {
    const probe = path.join(await parent(), `stint-bench-probe-${process.pid}`);
    await mkdir(probe);
    await rmdir(probe);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Bounds a process as the `limits.cpu` of a container does: so many thousandths of a processor in each 100 ms. */
export async function limitCpu(pid: number, millicores: number): Promise<CpuQuota> {
  const root = await parent();
  const directory = path.join(root, `stint-bench-${pid}`);
  await mkdir(directory);
  const quota = Math.round((PERIOD_US * millicores) / 1_000);
  if (root === V1) {
    await writeFile(path.join(directory, 'cpu.cfs_period_us'), String(PERIOD_US));
    await writeFile(path.join(directory, 'cpu.cfs_quota_us'), String(quota));
  } else {
    await writeFile(path.join(directory, 'cpu.max'), `${quota} ${PERIOD_US}`);
  }
  await writeFile(path.join(directory, 'cgroup.procs'), String(pid));
  return { remove: () => removeEmpty(directory) };
}

async function parent(): Promise<string> {
  const v1 = await access(path.join(V1, 'cpu.cfs_quota_us')).then(
    () => true,
    () => false,
  );
  if (v1) return V1;
  const controllers = await readFile(path.join(V2, 'cgroup.subtree_control'), 'utf8');
  if (!controllers.split(/\s/).includes('cpu')) throw new Error('the cpu controller is not on for child groups');
  return V2;
}

/** A group can be removed when the kernel has let go of its last process. */
async function removeEmpty(directory: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await rmdir(directory);
      return;
    } catch (error) {
      if (tries === REMOVE_TRIES) throw error;
      await pause(20);
    }
  }
}
