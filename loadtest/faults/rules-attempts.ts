import { parseLeaseToken } from '../../src/jobs/lease-token.js';
import type { Breach } from './breach.js';
import type { AttemptRow, Delivery, Evidence, JobRow, Settling } from './evidence.js';
import { grouped } from './grouped.js';

/** Heartbeats commit asynchronously: one that was answered this short a time (microseconds) before Postgres was killed may be undone. */
const UNFLUSHED = 1_000_000;
const CRASHES: ReadonlySet<string> = new Set(['kill-postgres', 'kill-backend']);

/** The history in the database is that of the leases that were seen. */
export function attemptsOf(evidence: Evidence): Breach[] {
  const attempts = grouped(evidence.attempts, ({ id }) => id);
  const deliveries = grouped(evidence.deliveries, ({ id }) => id);
  return [
    ...evidence.jobs.flatMap((job) => sums(job, attempts.get(job.id) ?? [])),
    ...evidence.jobs.flatMap((job) => epochs(job, deliveries.get(job.id) ?? [])),
    ...causes(evidence),
    ...wrongTimes(evidence),
  ];
}

function sums(job: JobRow, attempts: readonly AttemptRow[]): Breach[] {
  const failed = attempts.filter(({ outcome }) => outcome === 'nacked' || outcome === 'expired').length;
  const spent = failed + (job.state === 'completed' ? 1 : 0);
  if (spent === job.attempt) return [];
  const ended = attempts.map(({ epoch, outcome }) => `epoch ${epoch} ended as ${outcome}`);
  const fact = `the job is ${job.state} in epoch ${job.epoch} with ${job.attempt} attempts spent`;
  return [{ rule: 'attempts add up', about: job.id, facts: [...ended, fact] }];
}

function epochs(job: JobRow, deliveries: readonly Delivery[]): Breach[] {
  return deliveries
    .filter(({ epoch }) => epoch > job.epoch)
    .map(({ source, epoch, at }) => ({
      rule: 'the epoch of a job never falls',
      about: job.id,
      facts: [`at ${at} ${source} was given epoch ${epoch}; the job is ${job.state} in epoch ${job.epoch}`],
    }));
}

/** A lease ends as nacked or released only where its worker has asked for that. */
function causes({ attempts, settlings }: Evidence): Breach[] {
  const asked = new Set(settlings.map(({ token, verb }) => `${parseLeaseToken(token)?.leaseId ?? ''} ${verb}`));
  return attempts
    .filter(({ outcome }) => outcome === 'nacked' || outcome === 'released')
    .filter(({ leaseId, outcome }) => !asked.has(`${leaseId} ${outcome === 'nacked' ? 'nack' : 'release'}`))
    .map(({ id, epoch, outcome }) => ({
      rule: 'a lease is ended by its own worker',
      about: id,
      facts: [`epoch ${epoch} ended as ${outcome}, and no worker has asked for it`],
    }));
}

/**
 * No lease is taken for expired before the instant that its worker was told last, and none is nacked or released after it. All
 * instants here are the database's.
 */
function wrongTimes(evidence: Evidence): Breach[] {
  const ends = new Map(evidence.attempts.map((attempt) => [attempt.leaseId, attempt]));
  const beats = grouped(
    evidence.settlings.filter(({ verb }) => verb === 'heartbeat'),
    ({ token }) => token,
  );
  return evidence.deliveries.flatMap((delivery) => {
    const attempt = ends.get(parseLeaseToken(delivery.token)?.leaseId ?? '');
    const own = beats.get(delivery.token) ?? [];
    if (attempt === undefined) return [];
    const given = `at ${delivery.at} ${delivery.source} was given epoch ${delivery.epoch}`;
    if (attempt.outcome === 'expired') {
      const sure = own.filter((beat) => !isUndone(beat, evidence));
      const early = lastTold(delivery, sure) - attempt.endedAt;
      if (early <= 0) return [];
      const fact = `the database has it expire ${Math.round(early / 1_000)} ms before its time`;
      return [
        { rule: 'a lease lasts until the instant its worker was told', about: delivery.id, facts: [given, fact] },
      ];
    }
    // A heartbeat that was not answered may have been carried out.
    if (own.some(({ answer }) => answer === undefined)) return [];
    const late = attempt.endedAt - lastTold(delivery, own);
    if (late <= 0) return [];
    const fact = `it was ${attempt.outcome} ${Math.round(late / 1_000)} ms after its time`;
    return [{ rule: 'a lease that has run out is not nacked or released', about: delivery.id, facts: [given, fact] }];
  });
}

function lastTold({ expiresAt }: Delivery, beats: readonly Settling[]): number {
  return Math.max(expiresAt, ...beats.map(({ answer }) => answer?.expiresAt ?? 0));
}

function isUndone({ answer }: Settling, { windows }: Evidence): boolean {
  if (answer === undefined) return false;
  return windows.some(
    ({ kind, begun, ended }) => CRASHES.has(kind) && answer.at > begun - UNFLUSHED && answer.at < ended,
  );
}
