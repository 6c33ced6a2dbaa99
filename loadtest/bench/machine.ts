import { execFile } from 'node:child_process';
import { cpus, release, totalmem } from 'node:os';
import { promisify } from 'node:util';

/** On what a run was made. */
export interface Machine {
  readonly processor: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly system: string;
  readonly node: string;
  readonly date: string;
  /** Of the checkout; absent outside of one. */
  readonly commit?: string;
}

export async function describeMachine(): Promise<Machine> {
  const processors = cpus();
  const commit = await commitHere();
  return {
    processor: processors[0]?.model.trim() ?? 'unknown',
    cores: processors.length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${process.platform} ${release()}`,
    node: process.version,
    date: new Date().toISOString(),
    ...(commit === undefined ? {} : { commit }),
  };
}

async function commitHere(): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)('git', ['describe', '--always', '--dirty', '--abbrev=12'], {
      cwd: import.meta.dirname,
    });
    return stdout.trim();
  } catch {
    // No git, or no checkout: the package was installed.
    return undefined;
  }
}
