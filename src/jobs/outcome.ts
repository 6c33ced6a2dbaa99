import { Type } from 'typebox';
import { plainArray } from '../db/literals.js';
import type { Connections, Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { LeaseToken } from './lease-token.js';

export type Verb = 'ack' | 'nack' | 'release' | 'heartbeat';
export type Outcome = 'OK' | 'ALREADY_SETTLED' | 'LEASE_LOST' | 'NOT_FOUND' | 'INVALID';

/** What every result of a settle has. */
export const outcomeFields = {
  outcome: Type.Enum(['OK', 'ALREADY_SETTLED', 'LEASE_LOST', 'NOT_FOUND', 'INVALID']),
  settledAs: Type.Optional(
    Type.Enum(['ACKED', 'NACKED', 'RELEASED', 'EXPIRED', 'UNDELIVERED', 'CANCELLED'], {
      description: 'With LEASE_LOST: how this lease ended, where that is known.',
    }),
  ),
  error: Type.Optional(
    Type.Object(
      { field: Type.String(), message: Type.String() },
      { description: 'With INVALID: what is wrong with the item.' },
    ),
  ),
};

/** How a lease ended, as callers are told. */
type LeaseEnd = 'ACKED' | 'NACKED' | 'RELEASED' | 'EXPIRED' | 'UNDELIVERED' | 'CANCELLED';

export interface Settled {
  readonly outcome: Outcome;
  readonly settledAs?: LeaseEnd | undefined;
  readonly error?: { readonly field: string; readonly message: string } | undefined;
}

const ENDED_BY: Readonly<Record<Verb, string | undefined>> = {
  ack: 'acked',
  nack: 'nacked',
  release: 'released',
  heartbeat: undefined,
};

/** Where a job stands and how the lease in question ended. */
interface Standing {
  readonly ord: number;
  readonly state: string | null;
  readonly epoch: number;
  readonly leaseId: string | null;
  readonly ended: string;
  /** How this very lease ended, if its row is kept. */
  readonly outcome: string | null;
}

/** Looks up what calls with leases that are not current are told. */
export async function outcomesOf(
  connections: Connections,
  verb: Verb,
  tokens: readonly LeaseToken[],
): Promise<Settled[]> {
  if (tokens.length === 0) return [];
  const rows = await connections.query<Standing>(STANDING, [
    plainArray(tokens.map(({ jobId }) => jobId)),
    plainArray(tokens.map(({ queueId }) => queueId)),
    plainArray(tokens.map(({ epoch }) => epoch)),
    plainArray(tokens.map(({ leaseId }) => leaseId)),
  ]);
  const byPlace = new Map(rows.map((row) => [row.ord, row]));
  return tokens.map((token, index) => decide(verb, token, byPlace.get(index + 1)));
}

/**
 * The rules of the state × event table for leases that are over. A release is known as settled only while nobody has leased
 * the job since: afterwards its token is just an old one.
 */
function decide(verb: Verb, token: LeaseToken, standing: Standing | undefined): Settled {
  if (standing?.state == null) return { outcome: 'NOT_FOUND' };
  const isLast = standing.epoch === token.epoch && standing.leaseId === token.leaseId;
  const ended = standing.outcome ?? (isLast && standing.state !== 'leased' ? standing.ended : 'none');
  if (ended === ENDED_BY[verb] && (verb !== 'release' || isLast)) return { outcome: 'ALREADY_SETTLED' };
  return { outcome: 'LEASE_LOST', settledAs: ended === 'none' ? undefined : (ended.toUpperCase() as LeaseEnd) };
}

/** Turns a batch's only result into the answer of the single call. */
export function single<R extends Settled>(results: readonly R[]): R {
  const result = results[0]!;
  switch (result.outcome) {
    case 'OK':
    case 'ALREADY_SETTLED':
      return result;
    case 'LEASE_LOST':
      throw new ServiceError('LEASE_LOST', 'the lease is over: stop working on this job', {
        extra: result.settledAs === undefined ? {} : { settledAs: result.settledAs },
      });
    case 'NOT_FOUND':
      throw new ServiceError('NOT_FOUND', 'no such job');
    case 'INVALID':
      throw new ServiceError('INVALID_ARGUMENT', `${result.error!.field} ${result.error!.message}`, {
        fields: [result.error!],
      });
  }
}

// Reads only, by the primary keys and the unique indexes on job_id. The token's queue has been found to be the caller's tenant's;
// a job that has moved since (redrive, dead letter queue) is looked for under all queues of that tenant.
// `offset 0` keeps the look-up of attempt an index condition, also in a plan made while it was empty.
const STANDING: Statement = {
  name: 'lease-standing',
  text: `select i.ord::int, s.state, s.epoch, s.lease_id as "leaseId", s.ended::text as ended, a.outcome::text as outcome
from unnest($1::uuid[], $2::int[], $3::int[], $4::bigint[]) with ordinality as i(job_id, queue_id, epoch, lease_id, ord)
left join lateral (
  select js.state, js.epoch, js.lease_id, js.ended from job_state js
  join queue q on q.id = js.queue_id and q.closed_at is null
  join queue named on named.id = i.queue_id and named.tenant_id = q.tenant_id
  where js.job_id = i.job_id
  limit 1) s on true
left join lateral (
  select attempt.outcome from attempt
  where attempt.job_id = i.job_id and attempt.epoch = i.epoch and attempt.lease_id = i.lease_id
  offset 0) a on true`,
};
