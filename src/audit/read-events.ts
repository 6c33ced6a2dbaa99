import { decodeCursor, DEFAULT_PAGE_LIMIT, encodeCursor } from '../core/page.js';
import type { Connection, Statement } from '../db/pool.js';
import { invalidField } from '../errors.js';
import type { AuditEvent } from './event.js';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const FIRST_ID = '00000000-0000-0000-0000-000000000000';
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

export interface EventsWanted {
  /** Id of the tenant whose log is read; everybody's without. */
  readonly tenantId: string | undefined;
  readonly action?: string | undefined;
  /** Microseconds since 1970: at or after, and before. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}

export interface EventPage {
  readonly events: AuditEvent[];
  readonly nextCursor: string | undefined;
}

/** A page of the log, oldest first. Throws INVALID_ARGUMENT for a cursor that is none. */
export async function readEvents(connection: Pick<Connection, 'query'>, wanted: EventsWanted): Promise<EventPage> {
  const { tenantId, limit = DEFAULT_PAGE_LIMIT } = wanted;
  const place = [placeAfter(wanted), placeBefore(wanted), wanted.action ?? null, limit + 1];
  const rows =
    tenantId === undefined
      ? await connection.query<EventRow>(EVENTS, place)
      : await connection.query<EventRow>(EVENTS_OF_TENANT, [tenantId, ...place]);
  const events = rows.slice(0, limit).map(toEvent);
  return { events, nextCursor: rows.length > limit ? encodeCursor([events.at(-1)!.id]) : undefined };
}

/** What is shown comes behind this id: ids are made of the time, see record-act.ts. */
function placeAfter({ since, cursor }: EventsWanted): string {
  const first = since === undefined ? FIRST_ID : idAt(since);
  if (cursor === undefined) return first;
  const [id] = decodeCursor(cursor, 1);
  if (typeof id !== 'string' || !UUID.test(id)) {
    throw invalidField('cursor', 'must be the nextCursor of an earlier page of this list');
  }
  return id > first ? id : first;
}

function placeBefore({ until }: EventsWanted): string {
  return until === undefined ? LAST_ID : idAt(until);
}

/** Before every id of that microsecond and after every earlier one; none that exists. */
function idAt(micros: number): string {
  if (micros <= 0) return FIRST_ID;
  const milliseconds = Math.floor(micros / 1000)
    .toString(16)
    .padStart(12, '0');
  const fraction = Math.floor(((micros % 1000) * 4096) / 1000)
    .toString(16)
    .padStart(3, '0');
  return `${milliseconds.slice(0, 8)}-${milliseconds.slice(8)}-7${fraction}-0000-000000000000`;
}

interface EventRow {
  readonly id: string;
  readonly at: number;
  readonly tenant: string | null;
  readonly action: string;
  readonly target: string;
  readonly refused: boolean;
  readonly kind: AuditEvent['actor']['kind'];
  readonly actorId: string;
  readonly actorName: string;
  readonly before: string | null;
  readonly after: string | null;
  readonly requestId: string;
  readonly address: string;
}

function toEvent({ kind, actorId, actorName, ...row }: EventRow): AuditEvent {
  return {
    ...row,
    tenant: row.tenant ?? undefined,
    actor: { kind, id: actorId, name: actorName },
    before: row.before ?? undefined,
    after: row.after ?? undefined,
  };
}

// Both read only. Walks the primary key.
const EVENTS: Statement = {
  name: 'audit-events',
  text: `select id, (extract(epoch from at) * 1000000)::float8 as at, tenant_id as tenant, action, target, refused,
  actor_kind as kind, actor_id as "actorId", actor_name as "actorName", before::text, after::text,
  request_id as "requestId", address
from audit_event
where id > $1::uuid and id < $2::uuid and ($3::text is null or action = $3::text)
order by id
limit $4::int`,
};

// Walks audit_event_tenant within the tenant.
const EVENTS_OF_TENANT: Statement = {
  name: 'audit-events-of-tenant',
  text: `select id, (extract(epoch from at) * 1000000)::float8 as at, tenant_id as tenant, action, target, refused,
  actor_kind as kind, actor_id as "actorId", actor_name as "actorName", before::text, after::text,
  request_id as "requestId", address
from audit_event
where tenant_id = $1::uuid and id > $2::uuid and id < $3::uuid and ($4::text is null or action = $4::text)
order by id
limit $5::int`,
};
