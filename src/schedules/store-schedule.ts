import { v7 } from 'uuid';
import type { Connection, Statement } from '../db/pool.js';
import { DEFAULT_MISFIRE, DEFAULT_OVERLAP } from './schedule-fields.js';
import type { Misfire, Overlap } from './plan-fires.js';
import type { Template } from './template.js';
import type { Timing } from './timing.js';

export interface StoredSchedule {
  readonly tenantId: string;
  readonly input: {
    readonly name: string;
    readonly queue: string;
    readonly misfire?: Misfire | undefined;
    readonly overlap?: Overlap | undefined;
    readonly expiresAfter?: number | undefined;
  };
  readonly template: Template;
  readonly timing: Timing;
  readonly paused: boolean;
  /** The first instant; undefined where it is to stay as it is. */
  readonly next: number | undefined;
}

/** Makes the schedule, or replaces the one of its name; its revision rises unless all is as it was. */
export async function storeSchedule(connection: Connection, schedule: StoredSchedule): Promise<void> {
  const { tenantId, input, template, timing, paused, next } = schedule;
  await connection.query(STORE, [
    v7(),
    tenantId,
    input.name,
    timing.cron ?? null,
    timing.every ?? null,
    timing.timeZone,
    timing.anchor,
    timing.startAt ?? null,
    timing.endAt ?? null,
    input.misfire ?? DEFAULT_MISFIRE,
    input.overlap ?? DEFAULT_OVERLAP,
    input.queue,
    template.kind ?? null,
    typeof template.payload === 'string' ? Buffer.from(template.payload) : (template.payload ?? null),
    template.contentType ?? null,
    template.isJson,
    template.headers ?? null,
    template.rank,
    template.size,
    template.maxAttempts ?? null,
    template.visibilityTimeout ?? null,
    template.retry ?? null,
    input.expiresAfter ?? null,
    paused,
    next ?? null,
  ]);
}

// Makes a row or locks the one there is. A change takes an error back, so that the schedule is looked at when it is due. Unique index
// on (tenant_id, name).
const STORE: Statement = {
  name: 'schedule-store',
  text: `insert into schedule as s (id, tenant_id, name, cron, every, time_zone, anchor_at, start_at, end_at, misfire, overlap, queue, kind,
  payload, content_type, is_json, headers, rank, size, max_attempts, visibility_timeout, retry, expires_after, paused_at, next_fire_at,
  look_at)
select $1::uuid, $2::uuid, $3::text, $4::text, $5::bigint, $6::text, timestamptz 'epoch' + $7::bigint * interval '1 microsecond',
  timestamptz 'epoch' + $8::bigint * interval '1 microsecond', timestamptz 'epoch' + $9::bigint * interval '1 microsecond', $10::text,
  $11::text, $12::text, $13::text, $14::bytea, $15::text, $16::boolean, $17::text, $18::smallint, $19::int, $20::int, $21::int,
  $22::jsonb, $23::bigint, case when $24::boolean then clock_timestamp() end, given.next, given.next
from (select case when not $24::boolean then timestamptz 'epoch' + $25::bigint * interval '1 microsecond' end as next) given
on conflict (tenant_id, name) do update
set revision = s.revision + 1, cron = excluded.cron, every = excluded.every, time_zone = excluded.time_zone,
  anchor_at = excluded.anchor_at, start_at = excluded.start_at, end_at = excluded.end_at, misfire = excluded.misfire,
  overlap = excluded.overlap, queue = excluded.queue, kind = excluded.kind, payload = excluded.payload,
  content_type = excluded.content_type, is_json = excluded.is_json, headers = excluded.headers, rank = excluded.rank,
  size = excluded.size, max_attempts = excluded.max_attempts, visibility_timeout = excluded.visibility_timeout,
  retry = excluded.retry, expires_after = excluded.expires_after,
  paused_at = case when excluded.paused_at is not null then coalesce(s.paused_at, excluded.paused_at) end,
  next_fire_at = case when excluded.paused_at is null then coalesce(excluded.next_fire_at, s.next_fire_at) end,
  look_at = case when excluded.paused_at is null then coalesce(excluded.next_fire_at, s.next_fire_at) end,
  failures = 0, error = null, error_at = null, updated_at = clock_timestamp()
where (s.cron, s.every, s.time_zone, s.start_at, s.end_at, s.misfire, s.overlap, s.queue, s.kind, s.payload, s.content_type, s.is_json,
    s.headers, s.rank, s.max_attempts, s.visibility_timeout, s.retry, s.expires_after, s.paused_at is null)
  is distinct from
  (excluded.cron, excluded.every, excluded.time_zone, excluded.start_at, excluded.end_at, excluded.misfire, excluded.overlap,
    excluded.queue, excluded.kind, excluded.payload, excluded.content_type, excluded.is_json, excluded.headers, excluded.rank,
    excluded.max_attempts, excluded.visibility_timeout, excluded.retry, excluded.expires_after, excluded.paused_at is null)`,
};
