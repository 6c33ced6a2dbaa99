import type { Breach } from './breach.js';
import { type RunResult, targetOf } from './run.js';

/** Shown of each rule. */
const MOST_SHOWN = 3;

/** The verdict on a seed, for a person. */
export function reportOf(result: RunResult): string {
  const { seed, faults, breaches, kept } = result;
  const count = faults.filter(({ skipped }) => skipped === undefined).length;
  const lines = [
    `seed ${seed}: ${breaches.length === 0 ? 'every rule held' : `${breaches.length} breaches`}`,
    `  ${count} faults: ${faults.map(faultText).join(', ')}`,
    `  jobs: ${result.offered} offered, ${result.accepted} accepted, ${result.acked} acked, ${result.dead} dead`,
    `  leases: ${result.leases} seen, ${result.redelivered} redelivered, ${result.expired} expired, ${result.takenBack} given back unasked`,
    `  settles: ${result.alreadySettled} answered ALREADY_SETTLED, ${result.leaseLost} LEASE_LOST`,
    `  calls: ${result.unavailable} answered 503, ${result.unanswered} not answered`,
    `  ready ${result.readyAfterMs === undefined ? 'not within 10 s' : `${Math.round(result.readyAfterMs)} ms`} after the last fault; ` +
      `${result.probes} probes in calm, the slowest ${Math.round(result.slowestProbeMs)} ms`,
    `  bound: ${result.boundProbes} looks, ${result.atBound} saw it reached, ${result.boundChanges} changes; ` +
      `another tenant: ${result.intrusionsRefused} calls answered NOT_FOUND; ` +
      `retries: ${result.inBursts} in ${result.bursts} bursts`,
    ...breachLines(breaches),
  ];
  if (kept !== undefined) lines.push(`  journals and logs: ${kept}`);
  return `${lines.join('\n')}\n`;
}

function breachLines(breaches: readonly Breach[]): string[] {
  const seen = new Map<string, number>();
  const lines: string[] = [];
  for (const { rule, about, facts } of breaches) {
    const nth = (seen.get(rule) ?? 0) + 1;
    seen.set(rule, nth);
    if (nth <= MOST_SHOWN) lines.push(`  BREACH ${rule}: ${about}`, ...facts.map((fact) => `      ${fact}`));
  }
  for (const [rule, count] of seen) {
    if (count > MOST_SHOWN) lines.push(`  and ${count - MOST_SHOWN} more: ${rule}`);
  }
  return lines;
}

function faultText(fault: RunResult['faults'][number]): string {
  const text = `${fault.kind}${targetOf(fault)} at ${(fault.at / 1_000).toFixed(1)} s`;
  return fault.skipped === undefined ? text : `(${fault.kind} skipped: ${fault.skipped})`;
}
