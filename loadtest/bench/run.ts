import { writeFile } from 'node:fs/promises';
import { describeMachine, type Machine } from './machine.js';
import { MODES } from './modes/all.js';
import { printed, type Table } from './report.js';
import { Rig } from './rig.js';
import type { Scale } from './scale.js';

/** All that a run has found. */
export interface Report {
  readonly machine: Machine;
  readonly postgres: Readonly<Record<string, string>>;
  readonly quick: boolean;
  readonly tables: readonly Table[];
}

export interface RunOptions {
  readonly modes: readonly string[];
  readonly scale: Scale;
  /** Where the report goes, written anew after each mode. */
  readonly json: string;
  /** Tables. */
  readonly print: (text: string) => void;
  /** What is going on. */
  readonly say: (text: string) => void;
  /** Ends the run, and everything it has started, before its time. */
  readonly signal?: AbortSignal;
}

/**
 * Runs the modes one after the other on one Postgres, each on databases, services and generators of its own.
 *
 * @throws Error for an unknown mode, when it is ended before its time, and for whatever keeps one from being measured
 */
export async function runBench({ modes, scale, json, print, say, signal }: RunOptions): Promise<Report> {
  const unknown = modes.filter((mode) => !Object.hasOwn(MODES, mode));
  if (unknown.length > 0) throw new Error(`no such mode: ${unknown.join(', ')} (--help)`);
  const aborted = untilAborted(signal);
  const machine = await describeMachine();
  const rig = await Rig.open(scale, say);
  try {
    const { settings } = rig.postgres;
    print(heading(machine, settings));
    const tables: Table[] = [];
    let report: Report = { machine, postgres: settings, quick: scale.quick, tables };
    for (const mode of modes) {
      const running = MODES[mode]!(rig);
      // What it comes to when nobody waits for it any more is of no interest.
      running.catch(() => undefined);
      const found = await Promise.race([running, aborted]);
      const table = { ...found, notes: [...found.notes, ...rig.takeFaults()] };
      print(printed(table));
      tables.push(table);
      report = { ...report, tables: [...tables] };
      await writeFile(json, `${JSON.stringify(report, null, 2)}\n`);
      await rig.clear();
    }
    return report;
  } finally {
    await rig.close();
  }
}

/** Rejects when the run is to end before its time; never resolves. */
function untilAborted(signal: AbortSignal | undefined): Promise<never> {
  const aborted = new Promise<never>((_, reject) => {
    const refuse = (): void => reject(new Error('ended before its time'));
    if (signal?.aborted === true) refuse();
    else signal?.addEventListener('abort', refuse, { once: true });
  });
  // Told to whoever waits for a mode; between two nobody does.
  aborted.catch(() => undefined);
  return aborted;
}

function heading(machine: Machine, settings: Readonly<Record<string, string>>): string {
  const { processor, cores, memoryGiB, system, node, date, commit } = machine;
  const where = `${cores} × ${processor}, ${memoryGiB} GiB, ${system}, Node ${node}`;
  const what = Object.entries(settings).map(([name, value]) => `${name} ${value}`);
  return `${where}\nPostgreSQL: ${what.join(', ')}\n${date}${commit === undefined ? '' : `, commit ${commit}`}\n`;
}
