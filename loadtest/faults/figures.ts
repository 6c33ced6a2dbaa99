import { parseLeaseToken } from '../../src/jobs/lease-token.js';
import type { Evidence } from './evidence.js';
import { calmProbes } from './rules-promises.js';
import { burstsOf } from './rules-retries.js';
import { isRefused } from './rules-tenants.js';

/** What went on in a run. */
export interface Figures {
  /** Jobs that producers asked for; those asked for again under their key count once. */
  readonly offered: number;
  readonly accepted: number;
  readonly acked: number;
  readonly dead: number;
  readonly leases: number;
  /** Leases seen beyond the first of a job. */
  readonly redelivered: number;
  readonly expired: number;
  /** Leases that were seen by a worker and given back as undelivered. */
  readonly takenBack: number;
  readonly alreadySettled: number;
  readonly leaseLost: number;
  /** Calls that were answered 503, and those that were not answered. */
  readonly unavailable: number;
  readonly unanswered: number;
  /** Probes of what comes back at once, while no fault was at work, and the slowest in milliseconds. */
  readonly probes: number;
  readonly slowestProbeMs: number;
  /** Looks at the queue with a bound, those that saw as many leases live as it allows, and changes of the bound. */
  readonly boundProbes: number;
  readonly atBound: number;
  readonly boundChanges: number;
  /** Calls of another tenant that were answered NOT_FOUND. */
  readonly intrusionsRefused: number;
  /** Times when enough jobs were nacked together to judge how their retries are spread, and jobs in them. */
  readonly bursts: number;
  readonly inBursts: number;
}

export function figuresOf(evidence: Evidence): Figures {
  const { offers, deliveries, settlings, jobs, attempts, refusals } = evidence;
  const told = (outcome: string): number => settlings.filter(({ answer }) => answer?.outcome === outcome).length;
  const calm = calmProbes(evidence);
  const bursts = burstsOf(evidence);
  return {
    offered: offeredIn(evidence),
    accepted: new Set(offers.flatMap(({ ids }) => ids ?? [])).size,
    acked: jobs.filter(({ state }) => state === 'completed').length,
    dead: jobs.filter(({ state }) => state === 'dead').length,
    leases: deliveries.length,
    redelivered: deliveries.length - new Set(deliveries.map(({ id }) => id)).size,
    expired: attempts.filter(({ outcome }) => outcome === 'expired').length,
    takenBack: takenBackIn(evidence),
    alreadySettled: told('ALREADY_SETTLED'),
    leaseLost: told('LEASE_LOST'),
    unavailable: refusals.filter(({ status }) => status === 503).length,
    unanswered: refusals.filter(({ status }) => status === 0).length,
    probes: calm.length,
    slowestProbeMs: Math.max(0, ...calm.map(({ begun, at }) => (at - begun) / 1_000)),
    boundProbes: evidence.boundProbes.length,
    atBound: evidence.boundProbes.filter(({ live, bound }) => live.length >= bound).length,
    boundChanges: Math.max(0, evidence.boundChanges.length - 1),
    intrusionsRefused: evidence.intrusions.filter((each) => each.told.length > 0 && isRefused(each)).length,
    bursts: bursts.length,
    inBursts: bursts.reduce((sum, { delays }) => sum + delays.length, 0),
  };
}

function offeredIn({ offers }: Evidence): number {
  const keyed = offers.flatMap(({ queue, keys }) => keys.filter((key) => key !== null).map((key) => `${queue} ${key}`));
  const unkeyed = offers.reduce((sum, { keys }) => sum + keys.filter((key) => key === null).length, 0);
  return new Set(keyed).size + unkeyed;
}

function takenBackIn({ deliveries, attempts, jobs }: Evidence): number {
  const known = new Set([...attempts.map(({ leaseId }) => leaseId), ...jobs.map(({ leaseId }) => leaseId)]);
  return deliveries.filter(({ token }) => !known.has(parseLeaseToken(token)?.leaseId ?? '')).length;
}
