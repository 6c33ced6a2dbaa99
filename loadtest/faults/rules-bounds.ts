import type { Breach } from './breach.js';
import { UNBOUNDED } from './queues.js';
import type { BoundChange, BoundProbe, Evidence, FaultWindow } from './evidence.js';

/** Microseconds after a bound was lowered in which a claim may still have seen the one before: until the change is committed. */
const LOWERING = 2_000_000;
/** The same after a queue got its first bound: an instance that did not hear of it looks within 10 s. */
const BOUNDING = 12_000_000;

/** A bound on the leases of a queue holds at any moment, and keeps no job back longer than it must. */
export function boundsOf(evidence: Evidence): Breach[] {
  return [
    ...evidence.boundProbes.flatMap((probe) => overBound(probe, evidence.boundChanges)),
    ...stretchesOf(evidence.boundProbes).flatMap((stretch) => stuck(stretch, evidence)),
  ];
}

/** A lowered bound ends no lease, so each lease is held to the bound at its own start, with the leases that stood then. */
function overBound({ live, at }: BoundProbe, changes: readonly BoundChange[]): Breach[] {
  const over = live.findLast((leasedAt) => standing(live, leasedAt) > boundAt(changes, leasedAt));
  if (over === undefined) return [];
  const fact = `at ${at} ${standing(live, over)} leases are live that stood at ${over}, when the bound was ${boundAt(changes, over)}`;
  return [
    { rule: 'a queue never has more live leases than its bound', about: 'the queue with a bound', facts: [fact] },
  ];
}

function standing(live: readonly number[], leasedAt: number): number {
  return live.filter((other) => other <= leasedAt).length;
}

function boundAt(changes: readonly BoundChange[], at: number): number {
  const inForce = changes.filter((change, index) => {
    const ended = changes[index + 1]?.at ?? Infinity;
    return change.at <= at && ended + (change.bound === UNBOUNDED ? BOUNDING : LOWERING) >= at;
  });
  return Math.max(0, ...inForce.map(({ bound }) => bound));
}

/** Probes in a row that see jobs waiting and room for them, and no lease begun since the first. */
function stretchesOf(probes: readonly BoundProbe[]): BoundProbe[][] {
  const stretches: BoundProbe[][] = [];
  let current: BoundProbe[] = [];
  for (const probe of probes) {
    const hasRoom = probe.waiting > 0 && probe.live.length < probe.bound;
    const begun = current[0]?.clock ?? probe.clock;
    const goesOn = hasRoom && probe.bound === (current[0]?.bound ?? probe.bound) && (probe.live.at(-1) ?? 0) <= begun;
    if (!goesOn) current = [];
    if (!hasRoom) continue;
    if (current.length === 0) stretches.push(current);
    current.push(probe);
  }
  return stretches;
}

/** Workers ask for jobs of the queue all the time; what a fault kept them from is done when its recovery is over. */
function stuck(stretch: readonly BoundProbe[], { windows, recovery }: Evidence): Breach[] {
  const [first, last] = [stretch[0]!, stretch.at(-1)!];
  const idle = Math.max(...quietTimes({ begun: first.at, ended: last.at }, windows));
  if (idle <= recovery) return [];
  const fact = `for ${Math.round(idle / 1_000)} ms ${last.waiting} jobs waited with ${last.live.length} of ${last.bound} leases live`;
  return [{ rule: 'a queue is not stuck at its bound', about: 'the queue with a bound', facts: [fact] }];
}

/** How long each part of that time lasts that lies between two faults. */
function quietTimes({ begun, ended }: Pick<FaultWindow, 'begun' | 'ended'>, windows: readonly FaultWindow[]): number[] {
  const starts = [begun, ...windows.map((window) => window.ended).filter((at) => at > begun && at < ended)];
  return starts.map((start) => {
    if (windows.some((window) => window.begun <= start && window.ended > start)) return 0;
    return Math.min(ended, ...windows.map((window) => window.begun).filter((at) => at > start)) - start;
  });
}
