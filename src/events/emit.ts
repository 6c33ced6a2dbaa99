import type { Connection, Statement } from '../db/pool.js';
import type { EventType } from './webhook.js';

export interface NewEvent {
  readonly tenantId: string;
  readonly type: EventType;
  /** The queue it is about, by name: a webhook that is for some queues only is not told of others. */
  readonly queue: string;
  /** What is told, in the form of REST; it holds nothing secret and no payload. */
  readonly data: Readonly<Record<string, unknown>>;
}

/**
 * Writes an event down, to be delivered once the transaction has committed; nothing when no webhook of the tenant asks for it. To be
 * called within the transaction that brings the event about, so that it is told exactly when that has happened.
 */
export async function emit(connection: Pick<Connection, 'query'>, event: NewEvent): Promise<void> {
  await connection.query(EMIT, [event.tenantId, event.type, event.queue, JSON.stringify(event.data)]);
}

// May run beside everything; reads the tenant's webhooks by the unique index on (tenant_id, name).
const EMIT: Statement = {
  name: 'event-emit',
  text: `insert into event (tenant_id, type, queue, data)
select $1::uuid, $2::text, $3::text, $4::jsonb
where exists (select from webhook w where w.tenant_id = $1::uuid and $2::text = any(w.events))`,
};
