import { type Static, Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Connection, Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { refuseBeyond } from '../hotpath/queue-quota.js';
import { queueName } from '../jobs/enqueue-fields.js';
import { CYCLE, LOCK_DEAD_LETTERS, MAKE_QUEUE } from './dead-letter-queue.js';
import { Queue, readQueue } from './queue.js';
import { recordedQueue, recordedSettings } from './recorded.js';
import { completeSettings, DEFAULT_SETTINGS, NamedSettings, SETTING_NAMES, type SettingName } from './settings.js';

const Input = Type.Object({
  queue: queueName,
  ...NamedSettings.properties,
  reset: Type.Optional(
    Type.Array(Type.Enum([...SETTING_NAMES]), {
      maxItems: 100,
      description: 'Settings to put back to their defaults.',
    }),
  ),
});
type Input = Static<typeof Input>;

export const putQueue = defineOperation({
  name: 'PutQueue',
  group: 'Queues',
  summary: 'Create a queue, or change its settings',
  description:
    'Changes the settings it names, each whole; the others stay. A change holds for jobs that wait; a running lease keeps its own.',
  scopes: ['manage'],
  http: [{ method: 'PUT', path: '/v1/queues/:queue' }],
  input: Input,
  output: Queue,
  example: { visibilityTimeout: '60s', maxAttempts: 10, retry: { type: 'fixed', delays: ['1m', '5m', '30m'] } },
  run: async (context: Context<Engine>, input) => {
    const { engine, tenant } = context;
    const both = (input.reset ?? []).find((name) => input[name] !== undefined);
    if (both !== undefined) throw conflicting([both, 'reset'], `${both} is both set and reset`);
    const { ordinary } = engine.database;
    const names = [...new Set([input.queue, input.deadLetterQueue ?? input.queue])];
    const { changed, queue } = await ordinary.transaction(async (connection) => {
      await refuseBeyond(connection, { tenantId: tenant.id, most: tenant.limits.queues }, names);
      const made = await makeDeadLetterQueue(connection, tenant.id, input.deadLetterQueue);
      const before = await lockOrMake(connection, tenant.id, input.queue);
      const id = await change(connection, tenant.id, input);
      if (input.deadLetterQueue !== undefined) await refuseCycle(connection, id);
      const after = await readQueue(connection, tenant.id, input.queue);
      await record(connection, context, { before, after: after.queue });
      return { changed: [...made, id], queue: after.queue };
    });
    for (const id of changed) engine.wakeups.changed(id);
    return queue;
  },
});

/** Under a lock of the tenant, since two changes at once could make a cycle that neither sees. */
async function makeDeadLetterQueue(
  connection: Connection,
  tenantId: string,
  name: string | undefined,
): Promise<number[]> {
  if (name === undefined) return [];
  await connection.query(LOCK_DEAD_LETTERS, [tenantId]);
  return (await connection.query<{ id: number }>(MAKE_QUEUE, [tenantId, name])).map(({ id }) => id);
}

async function refuseCycle(connection: Connection, id: number): Promise<void> {
  const [found] = await connection.query<{ cycle: boolean; missing: boolean }>(CYCLE, [id]);
  if (found!.missing) throw beingDeleted('deadLetterQueue');
  if (found!.cycle) {
    const message = 'leads back to this queue';
    throw new ServiceError('INVALID_ARGUMENT', `deadLetterQueue ${message}`, {
      fields: [{ field: 'deadLetterQueue', message }],
    });
  }
}

/** The queue as it is before the change, its row locked; undefined when it was made just now. Throws UNAVAILABLE. */
async function lockOrMake(connection: Connection, tenantId: string, name: string): Promise<Queue | undefined> {
  const made = await connection.query(MAKE_QUEUE, [tenantId, name]);
  if (made.length > 0) return undefined;
  const locked = await connection.query(LOCK_QUEUE, [tenantId, name]);
  if (locked.length === 0) throw beingDeleted('queue');
  return (await readQueue(connection, tenantId, name)).queue;
}

/** Into the audit log, unless every setting is as it was. */
async function record(
  connection: Connection,
  context: Context<Engine>,
  queue: { readonly before: Queue | undefined; readonly after: Queue },
): Promise<void> {
  const before = queue.before === undefined ? undefined : recordedSettings(queue.before);
  const after = recordedSettings(queue.after);
  if (before === after) return;
  await recordAct(connection, context, { action: 'PutQueue', target: recordedQueue(queue.after.name), before, after });
}

async function change(connection: Connection, tenantId: string, input: Input): Promise<number> {
  const settings = completeSettings(input);
  const named = SETTING_NAMES.filter((name) => settings[name] !== undefined || input.reset?.includes(name));
  const value = (name: SettingName) => settings[name] ?? DEFAULT_SETTINGS[name] ?? null;
  const [row] = await connection.query<{ id: number }>(CHANGE, [
    tenantId,
    input.queue,
    named,
    value('visibilityTimeout'),
    value('maxAttempts'),
    JSON.stringify(value('retry')),
    value('maxLeaseDuration'),
    value('retainCompleted'),
    value('retainPayload'),
    value('retainDead'),
    value('idempotencyWindow'),
    value('maxPayloadBytes'),
    value('maxBacklog'),
    value('deadLetterQueue'),
    value('maxInFlight'),
    settings.rateLimit?.jobs ?? null,
    settings.rateLimit?.per ?? null,
  ]);
  if (row !== undefined) return row.id;
  throw conflicting(['retainPayload', 'retainCompleted'], 'retainPayload must not be longer than retainCompleted');
}

function conflicting(fields: readonly string[], message: string): ServiceError {
  return new ServiceError('INVALID_ARGUMENT', message, { fields: fields.map((field) => ({ field, message })) });
}

function beingDeleted(field: string): ServiceError {
  return new ServiceError('UNAVAILABLE', `${field} is being deleted: try again`, { retryAfter: 1 });
}

// Locks the row of a queue that is not being deleted until the transaction ends; index queue_name.
const LOCK_QUEUE: Statement = {
  name: 'queue-put-lock',
  text: `select id from queue where tenant_id = $1::uuid and name = $2 and closed_at is null for no key update`,
};

// The row is locked, by LOCK_QUEUE or by having been made. Changes nothing, and answers no row, when payloads would be kept
// longer than their jobs. Index queue_name.
const CHANGE: Statement = {
  name: 'queue-put',
  text: `update queue
set visibility_timeout = case when 'visibilityTimeout' = any($3::text[]) then $4::int else visibility_timeout end,
  max_attempts = case when 'maxAttempts' = any($3::text[]) then $5::int else max_attempts end,
  retry = case when 'retry' = any($3::text[]) then $6::jsonb else retry end,
  max_lease_duration = case when 'maxLeaseDuration' = any($3::text[]) then $7::bigint else max_lease_duration end,
  retain_completed = case when 'retainCompleted' = any($3::text[]) then $8::bigint else retain_completed end,
  retain_payload = case when 'retainPayload' = any($3::text[]) then $9::bigint else retain_payload end,
  retain_dead = case when 'retainDead' = any($3::text[]) then $10::bigint else retain_dead end,
  idempotency_window = case when 'idempotencyWindow' = any($3::text[]) then $11::bigint else idempotency_window end,
  max_payload_bytes = case when 'maxPayloadBytes' = any($3::text[]) then $12::int else max_payload_bytes end,
  max_backlog = case when 'maxBacklog' = any($3::text[]) then $13::bigint else max_backlog end,
  dead_letter_queue_id = case when 'deadLetterQueue' = any($3::text[]) then (
    select d.id from queue d where d.tenant_id = $1::uuid and d.name = $14::text and d.closed_at is null)
    else dead_letter_queue_id end,
  max_in_flight = case when 'maxInFlight' = any($3::text[]) then $15::int else max_in_flight end,
  rate_limit_jobs = case when 'rateLimit' = any($3::text[]) then $16::int else rate_limit_jobs end,
  rate_limit_per = case when 'rateLimit' = any($3::text[]) then $17::bigint else rate_limit_per end,
  updated_at = case when cardinality($3::text[]) > 0 then clock_timestamp() else updated_at end
where tenant_id = $1::uuid and name = $2::text and closed_at is null and coalesce(
  case when 'retainPayload' = any($3::text[]) then $9::bigint else retain_payload end <=
  case when 'retainCompleted' = any($3::text[]) then $8::bigint else retain_completed end, true)
returning id`,
};
