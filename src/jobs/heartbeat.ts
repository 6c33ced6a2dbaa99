import { Type, type Static } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { Duration, type InvalidItem, JsonText, LenientArray, Timestamp } from '../core/wire.js';
import { blob, plainArray } from '../db/literals.js';
import type { Statement } from '../db/pool.js';
import type { BatchKind } from '../hotpath/batcher.js';
import type { Engine } from '../hotpath/engine.js';
import { oneLease } from './one-lease.js';
import { outcomeFields } from './outcome.js';
import { inOrder, leaseToken, settleEach, type SettleItem, withOutcomes } from './settle-items.js';

const HALF_DAY_MS = 43_200_000;

export const HeartbeatItem = Type.Object({
  leaseToken,
  visibilityTimeout: Type.Optional(
    Duration({
      minimum: 1_000,
      maximum: HALF_DAY_MS,
      description: 'From now on, longer or shorter. Default: the one last in force.',
    }),
  ),
  progress: Type.Optional(
    JsonText({ 'x-max-bytes': 4_096, description: 'A JSON value of at most 4 KiB, shown with the job.' }),
  ),
});
export type HeartbeatItem = Static<typeof HeartbeatItem>;

export const HeartbeatResult = Type.Object({
  ...outcomeFields,
  leaseExpiresAt: Type.Optional(Timestamp({ description: 'With OK.' })),
  remaining: Type.Optional(
    Duration({
      minimum: 0,
      maximum: HALF_DAY_MS,
      description: "With OK: time left by the service's clock; no clock of yours is needed.",
    }),
  ),
  cancelRequested: Type.Optional(Type.Boolean({ description: 'With OK: true when somebody asks to stop this job.' })),
});
export type HeartbeatResult = Static<typeof HeartbeatResult>;

export const heartbeat = defineOperation({
  name: 'Heartbeat',
  group: 'Jobs',
  summary: 'Extend leases',
  description: 'Once a lease has run out its heartbeat answers LEASE_LOST: stop working on the job.',
  scopes: ['work'],
  http: [
    { method: 'POST', path: '/v1/leases/heartbeat' },
    {
      method: 'POST',
      path: '/v1/jobs/:id/heartbeat',
      suffix: 'One',
      summary: 'Extend one lease',
      form: oneLease(HeartbeatItem, HeartbeatResult),
    },
  ],
  input: Type.Object({ items: LenientArray(HeartbeatItem, { minItems: 1, maxItems: 1000 }) }),
  output: Type.Object({ results: Type.Array(HeartbeatResult) }),
  example: { items: [{ leaseToken: '…', progress: { done: 40 } }] },
  run: async (context: Context<Engine>, { items }) => ({ results: await heartbeatEach(context, items) }),
});

/** Extends each item's lease; results come in their order. */
export function heartbeatEach(
  context: Context<Engine>,
  items: readonly (HeartbeatItem | InvalidItem)[],
): Promise<HeartbeatResult[]> {
  return settleEach(
    context,
    { kind: heartbeatKind, sizeOf: ({ progress }: HeartbeatItem) => progress?.length ?? 0 },
    items,
  );
}

interface Extended {
  readonly jobId: string;
  readonly leaseExpiresAt: number;
  readonly remaining: number;
  readonly cancelRequested: boolean;
}

const heartbeatKind: BatchKind<SettleItem<HeartbeatItem>, HeartbeatResult> = {
  name: 'heartbeat',
  connections: 'heartbeat',
  maxRows: 500,
  maxBytes: 4 * 1024 * 1024,
  maxFlushes: 1,
  count: ({ outcome }, add) => outcome === 'OK' && add('heartbeaten', 1),
  flush: async (connections, items) => {
    const sorted = inOrder(items);
    const progress = blob(sorted.map(({ item }) => item.progress));
    const rows = await connections.query<Extended>(HEARTBEAT, [
      plainArray(sorted.map(({ token }) => token.jobId)),
      plainArray([...new Set(sorted.map(({ token }) => token.queueId))]),
      plainArray(sorted.map(({ token }) => token.leaseId)),
      plainArray(sorted.map(({ item }) => item.visibilityTimeout ?? 0)),
      progress.bytes,
      progress.starts,
      progress.lengths,
    ]);
    const extended = new Map(rows.map((row) => [row.jobId, row]));
    const tokens = items.map(({ token }) => token);
    return withOutcomes<HeartbeatResult>(connections, { verb: 'heartbeat', tokens }, ({ jobId }) => {
      const row = extended.get(jobId);
      if (row === undefined) return undefined;
      const { leaseExpiresAt, remaining, cancelRequested } = row;
      return { outcome: 'OK', leaseExpiresAt, remaining, cancelRequested };
    });
  },
};

// Locks the lease rows in the order of their keys (sorted by the caller; primary key of lease). No index covers what it changes, so
// the rows are updated in place on their page. A lease that has run out stays so, noticed or not. `width_bucket` finds a job's place in
// the sorted array by halves.
const HEARTBEAT: Statement = {
  name: 'heartbeat',
  text: `with clock as materialized (select clock_timestamp() as at),
kept as (
  update lease
  set duration = coalesce(nullif(($4::int[])[width_bucket(job_id, $1::uuid[])], 0), duration),
    lease_expires_at = least(max_until,
      (select at from clock) + coalesce(nullif(($4::int[])[width_bucket(job_id, $1::uuid[])], 0), duration) * interval '1 millisecond'),
    progress = coalesce(convert_from(substring($5::bytea from ($6::int[])[width_bucket(job_id, $1::uuid[])]
      for ($7::int[])[width_bucket(job_id, $1::uuid[])]), 'UTF8'), progress)
  where job_id = any($1::uuid[])
    and queue_id = any(array(select q.id from queue q where q.id = any($2::int[]) and q.closed_at is null))
    and lease_id = ($3::bigint[])[width_bucket(job_id, $1::uuid[])]
    and lease_expires_at > (select at from clock)
  returning job_id, lease_expires_at, cancel_requested
)
select job_id as "jobId", (extract(epoch from lease_expires_at) * 1000000)::float8 as "leaseExpiresAt",
  greatest(0, floor(extract(epoch from lease_expires_at - clock.at) * 1000))::float8 as remaining, cancel_requested as "cancelRequested"
from clock, kept`,
};
