import { readdir, readFile } from 'node:fs/promises';

/** Linux counts processor time in these, whatever the kernel's own tick. */
const TICKS_A_SECOND = 100;
const MICROS_A_TICK = 1_000_000 / TICKS_A_SECOND;

/** Whether this system tells the processor time of processes. */
export const canMeasureCpu = process.platform === 'linux';

interface Stat {
  readonly parent: number;
  readonly own: number;
  /** Of its children that have ended. */
  readonly children: number;
}

/** Microseconds of processor time that these processes have used; 0 where the system does not tell. */
export async function cpuOf(pids: readonly number[]): Promise<number> {
  if (!canMeasureCpu) return 0;
  const stats = await Promise.all(pids.map(statOf));
  return stats.reduce((sum, stat) => sum + (stat?.own ?? 0), 0) * MICROS_A_TICK;
}

/** The same of a process with all the children it has and has had: of Postgres, all backends. */
export async function cpuOfFamily(pid: number): Promise<number> {
  if (!canMeasureCpu) return 0;
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const stats = await Promise.all(pids.map(async (each) => ({ pid: each, stat: await statOf(each) })));
  let ticks = 0;
  for (const { pid: each, stat } of stats) {
    if (stat === undefined) continue;
    if (each === pid) ticks += stat.own + stat.children;
    else if (stat.parent === pid) ticks += stat.own;
  }
  return ticks * MICROS_A_TICK;
}

/** Bytes of memory that a process holds; 0 where the system does not tell. */
export async function residentBytes(pid: number): Promise<number> {
  if (!canMeasureCpu) return 0;
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1_024;
}

async function statOf(pid: number): Promise<Stat | undefined> {
  let text: string;
  try {
    text = await readFile(`/proc/${pid}/stat`, 'utf8');
  } catch {
    // It has ended meanwhile.
    return undefined;
  }
  // The name, in parentheses, may hold anything: fields are counted from its end, where the state, field 3, follows.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const at = (field: number): number => Number(fields[field - 3]);
  return { parent: at(4), own: at(14) + at(15), children: at(16) + at(17) };
}
