import { parseLeaseToken } from '../../src/jobs/lease-token.js';
import type { Breach } from './breach.js';
import type { AttemptRow, Delivery, Evidence, JobRow, Settling } from './evidence.js';
import { grouped } from './grouped.js';

const KNOWN: ReadonlySet<string> = new Set(['OK', 'ALREADY_SETTLED', 'LEASE_LOST']);

type Answered = Settling & { readonly answer: NonNullable<Settling['answer']> };

/** What a lease token is good for, and for how long. */
export function leasesOf(evidence: Evidence): Breach[] {
  const deliveries = grouped(evidence.deliveries, ({ id }) => id);
  const answered = evidence.settlings.filter((settling): settling is Answered => settling.answer !== undefined);
  return [
    ...repeatedEpochs(deliveries),
    ...ackedTwice(answered),
    ...staleTokens(answered, deliveries),
    ...untrueAnswers(answered, evidence),
    ...unknownOutcomes(answered),
  ];
}

function repeatedEpochs(deliveries: ReadonlyMap<string, readonly Delivery[]>): Breach[] {
  return [...deliveries].flatMap(([id, all]) =>
    [...grouped(all, ({ epoch }) => String(epoch))]
      .filter(([, same]) => same.length > 1)
      .map(([epoch, same]) => ({
        rule: 'an epoch of a job is leased to one worker, once',
        about: id,
        facts: same.map(
          ({ source, token, at }) => `at ${at} ${source} was given epoch ${epoch} with the token ${token}`,
        ),
      })),
  );
}

function ackedTwice(answered: readonly Answered[]): Breach[] {
  const settled = answered.filter(({ verb, answer }) => verb !== 'heartbeat' && answer.outcome === 'OK');
  const acked = answered.filter(({ verb, answer }) => verb === 'ack' && isSuccess(answer.outcome));
  const overTwoLeases = [...grouped(acked, ({ id }) => id)].filter(
    ([, acks]) => new Set(acks.map(({ token }) => token)).size > 1,
  );
  const twice = [...grouped(settled, ({ token }) => token).values()].filter((settles) => settles.length > 1);
  return [
    ...overTwoLeases.map(([id, acks]) => ({
      rule: 'a job is acked under one lease',
      about: id,
      facts: acks.map(told),
    })),
    ...twice.map((settles) => ({
      rule: 'a lease is settled once',
      about: settles[0]!.id,
      facts: settles.map(told),
    })),
  ];
}

function isSuccess(outcome: string): boolean {
  return outcome === 'OK' || outcome === 'ALREADY_SETTLED';
}

/** A call that began after somebody had been answered a later lease of the job cannot have come in time. */
function staleTokens(answered: readonly Answered[], deliveries: ReadonlyMap<string, readonly Delivery[]>): Breach[] {
  return answered
    .filter(({ answer }) => answer.outcome === 'OK')
    .flatMap((settling) => {
      const later = (deliveries.get(settling.id) ?? []).find(
        ({ epoch, at }) => epoch > settling.epoch && at < settling.begun,
      );
      if (later === undefined) return [];
      const given = `at ${later.at} ${later.source} was given epoch ${later.epoch}`;
      return [
        { rule: 'no lease token but the newest is accepted', about: settling.id, facts: [given, told(settling)] },
      ];
    });
}

/** What a worker was told has become of its lease is what the database says. */
function untrueAnswers(answered: readonly Answered[], { jobs, attempts }: Evidence): Breach[] {
  const rows = new Map(jobs.map((job) => [job.id, job]));
  const ends = new Map(attempts.map((attempt) => [`${attempt.id} ${attempt.leaseId}`, attempt]));
  return answered
    .filter(({ verb, answer }) => verb === 'ack' || (verb !== 'heartbeat' && isSuccess(answer.outcome)))
    .flatMap((settling) => {
      const leaseId = parseLeaseToken(settling.token)?.leaseId ?? '';
      const row = rows.get(settling.id);
      const attempt = ends.get(`${settling.id} ${leaseId}`);
      if (isTrue(settling, leaseId, { row, attempt })) return [];
      const job =
        row === undefined ? 'there is no such job' : `the job is ${row.state}, epoch ${row.epoch}, ${row.ended}`;
      const lease = attempt === undefined ? 'no attempt is kept' : `the attempt ended as ${attempt.outcome}`;
      const fact = `in the database ${job}; ${lease}`;
      return [
        { rule: 'a settle that is answered is done, and lasts', about: settling.id, facts: [told(settling), fact] },
      ];
    });
}

function isTrue(
  { verb, answer }: Answered,
  leaseId: string,
  { row, attempt }: { readonly row: JobRow | undefined; readonly attempt: AttemptRow | undefined },
): boolean {
  const acked = row?.state === 'completed' && row.leaseId === leaseId;
  if (verb === 'ack') return acked === isSuccess(answer.outcome);
  return attempt?.outcome === (verb === 'nack' ? 'nacked' : 'released');
}

/** No job of the load is deleted and no token of it is malformed. */
function unknownOutcomes(answered: readonly Answered[]): Breach[] {
  return answered
    .filter(({ answer }) => !KNOWN.has(answer.outcome))
    .map((settling) => ({
      rule: 'a worker is told of its lease what the contract has for it',
      about: settling.id,
      facts: [told(settling)],
    }));
}

function told({ source, verb, epoch, begun, answer }: Answered): string {
  return `at ${begun} ${source} asked to ${verb} epoch ${epoch} and at ${answer.at} was told ${answer.outcome}`;
}
