import type { Context } from '../core/operation.js';
import type { Connection, Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { usable } from '../jobs/read-jobs.js';
import { noSuchSchedule, type ScheduleRow } from './schedule.js';

type Reader = Pick<Connection, 'query'>;

/** The tenant's schedule of that name. Throws NOT_FOUND, also when the caller may not use its queue. */
export async function readSchedule(connection: Reader, context: Context<Engine>, name: string): Promise<ScheduleRow> {
  const row = await findSchedule(connection, context.tenant.id, name);
  if (row === undefined || !context.mayUse(row.queue)) throw noSuchSchedule();
  return row;
}

/** The same, its row locked until the transaction ends. */
export async function lockSchedule(
  connection: Connection,
  context: Context<Engine>,
  name: string,
): Promise<ScheduleRow> {
  await connection.query(LOCK, [context.tenant.id, name]);
  return readSchedule(connection, context, name);
}

/** The tenant's schedule of that name, or undefined. */
export async function findSchedule(
  connection: Reader,
  tenantId: string,
  name: string,
): Promise<ScheduleRow | undefined> {
  const [row] = await connection.query<ScheduleRow>(BY_NAME, [tenantId, name]);
  return row;
}

/** Up to `limit` schedules of the caller's whose names come after `after`, in the order of their names, without payloads. */
export async function readSchedules(
  connection: Reader,
  context: Context<Engine>,
  { after, limit }: { readonly after: string; readonly limit: number },
): Promise<Omit<ScheduleRow, 'payload'>[]> {
  return connection.query(LIST, [context.tenant.id, after, limit, ...usable(context)]);
}

// Waits for a fire that is being written. Unique index on (tenant_id, name), as for all of these.
const LOCK: Statement = {
  name: 'schedule-lock',
  text: `select id from schedule where tenant_id = $1::uuid and name = $2 for no key update`,
};

const BY_NAME: Statement = {
  name: 'schedule-by-name',
  text: `select s.id, (extract(epoch from clock_timestamp()) * 1000000)::float8 as now, s.revision, s.name, s.cron,
  s.every::float8 as every,
  s.time_zone as "timeZone", (extract(epoch from s.anchor_at) * 1000000)::float8 as anchor,
  (extract(epoch from s.start_at) * 1000000)::float8 as "startAt", (extract(epoch from s.end_at) * 1000000)::float8 as "endAt",
  s.queue, s.kind, s.payload, s.content_type as "contentType", s.is_json as "isJson", s.headers, s.rank, s.size,
  s.max_attempts as "maxAttempts", s.retry, s.visibility_timeout as "visibilityTimeout", s.expires_after::float8 as "expiresAfter",
  s.misfire, s.overlap, s.paused_at is not null as paused, (extract(epoch from s.created_at) * 1000000)::float8 as "createdAt",
  (extract(epoch from s.updated_at) * 1000000)::float8 as "updatedAt", (extract(epoch from s.next_fire_at) * 1000000)::float8 as "nextFire",
  (extract(epoch from s.look_at) * 1000000)::float8 as "lookAt", (extract(epoch from s.last_fire_at) * 1000000)::float8 as "lastFire",
  s.last_job_id as "lastJob", s.missed::float8 as missed, s.skipped::float8 as skipped, s.failures, s.error,
  (extract(epoch from s.error_at) * 1000000)::float8 as "errorAt"
from schedule s
where s.tenant_id = $1::uuid and s.name = $2`,
};

const LIST: Statement = {
  name: 'schedules-by-name',
  text: `select s.id, (extract(epoch from clock_timestamp()) * 1000000)::float8 as now, s.revision, s.name, s.cron,
  s.every::float8 as every,
  s.time_zone as "timeZone", (extract(epoch from s.anchor_at) * 1000000)::float8 as anchor,
  (extract(epoch from s.start_at) * 1000000)::float8 as "startAt", (extract(epoch from s.end_at) * 1000000)::float8 as "endAt",
  s.queue, s.kind, s.content_type as "contentType", s.is_json as "isJson", s.headers, s.rank, s.size,
  s.max_attempts as "maxAttempts", s.retry, s.visibility_timeout as "visibilityTimeout", s.expires_after::float8 as "expiresAfter",
  s.misfire, s.overlap, s.paused_at is not null as paused, (extract(epoch from s.created_at) * 1000000)::float8 as "createdAt",
  (extract(epoch from s.updated_at) * 1000000)::float8 as "updatedAt", (extract(epoch from s.next_fire_at) * 1000000)::float8 as "nextFire",
  (extract(epoch from s.look_at) * 1000000)::float8 as "lookAt", (extract(epoch from s.last_fire_at) * 1000000)::float8 as "lastFire",
  s.last_job_id as "lastJob", s.missed::float8 as missed, s.skipped::float8 as skipped, s.failures, s.error,
  (extract(epoch from s.error_at) * 1000000)::float8 as "errorAt"
from schedule s
where s.tenant_id = $1::uuid and s.name > $2
  and ($4::text[] is null or s.queue = any($4::text[])
    or exists (select from unnest($5::text[]) as own(prefix) where starts_with(s.queue, own.prefix)))
order by s.name
limit $3::int`,
};
