import { type Static, Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import type { Connection, Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { queueName } from '../jobs/enqueue-fields.js';
import { CYCLE, LOCK_DEAD_LETTERS, MAKE_DEAD_LETTER_QUEUE } from './dead-letter-queue.js';
import { Queue, readQueue } from './queue.js';
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
  run: async ({ engine, tenant }: Context<Engine>, input) => {
    const both = (input.reset ?? []).find((name) => input[name] !== undefined);
    if (both !== undefined) throw conflicting([both, 'reset'], `${both} is both set and reset`);
    const { ordinary } = engine.database;
    const changed =
      input.deadLetterQueue === undefined
        ? [await put(ordinary, tenant.id, input)]
        : await ordinary.transaction((connection) => putWithDeadLetters(connection, tenant.id, input));
    for (const id of changed) engine.wakeups.changed(id);
    return (await readQueue(ordinary, tenant.id, input.queue)).queue;
  },
});

/** Under a lock of the tenant, since two changes at once could make a cycle that neither sees. */
async function putWithDeadLetters(connection: Connection, tenantId: string, input: Input): Promise<number[]> {
  await connection.query(LOCK_DEAD_LETTERS, [tenantId]);
  const made = await connection.query<{ id: number }>(MAKE_DEAD_LETTER_QUEUE, [tenantId, input.deadLetterQueue]);
  const id = await put(connection, tenantId, input);
  const [found] = await connection.query<{ cycle: boolean; missing: boolean }>(CYCLE, [id]);
  if (found!.missing) throw beingDeleted('deadLetterQueue');
  if (found!.cycle) {
    const message = 'leads back to this queue';
    throw new ServiceError('INVALID_ARGUMENT', `deadLetterQueue ${message}`, {
      fields: [{ field: 'deadLetterQueue', message }],
    });
  }
  return [...made.map((queue) => queue.id), id];
}

async function put(connection: Pick<Connection, 'query'>, tenantId: string, input: Input): Promise<number> {
  const settings = completeSettings(input);
  const named = SETTING_NAMES.filter((name) => settings[name] !== undefined || input.reset?.includes(name));
  const value = (name: SettingName) => settings[name] ?? DEFAULT_SETTINGS[name] ?? null;
  const [row] = await connection.query<{ id: number }>(PUT, [
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
  const [standing] = await connection.query<{ closing: boolean }>(STANDING, [tenantId, input.queue]);
  if (standing?.closing === true) throw beingDeleted('queue');
  throw conflicting(['retainPayload', 'retainCompleted'], 'retainPayload must not be longer than retainCompleted');
}

function conflicting(fields: readonly string[], message: string): ServiceError {
  return new ServiceError('INVALID_ARGUMENT', message, { fields: fields.map((field) => ({ field, message })) });
}

function beingDeleted(field: string): ServiceError {
  return new ServiceError('UNAVAILABLE', `${field} is being deleted: try again`, { retryAfter: 1 });
}

// Locks the row of the queue it makes or changes; may run beside itself and everything else. Makes or changes nothing, and
// answers no row, when payloads would be kept longer than their jobs. Index queue_name.
const PUT: Statement = {
  name: 'queue-put',
  text: `insert into queue (tenant_id, name, visibility_timeout, max_attempts, retry, max_lease_duration, retain_completed,
  retain_payload, retain_dead, idempotency_window, max_payload_bytes, max_backlog, dead_letter_queue_id,
  max_in_flight, rate_limit_jobs, rate_limit_per)
select $1::uuid, $2::text, $4::int, $5::int, $6::jsonb, $7::bigint, $8::bigint, $9::bigint, $10::bigint, $11::bigint, $12::int,
  $13::bigint, (select d.id from queue d where d.tenant_id = $1::uuid and d.name = $14::text and d.closed_at is null),
  $15::int, $16::int, $17::bigint
where $9::bigint is null or $9::bigint <= $8::bigint
  or exists (select from queue q where q.tenant_id = $1::uuid and q.name = $2::text and q.closed_at is null)
on conflict (tenant_id, name) where closed_at is null do update
set visibility_timeout = case when 'visibilityTimeout' = any($3::text[]) then excluded.visibility_timeout else queue.visibility_timeout end,
  max_attempts = case when 'maxAttempts' = any($3::text[]) then excluded.max_attempts else queue.max_attempts end,
  retry = case when 'retry' = any($3::text[]) then excluded.retry else queue.retry end,
  max_lease_duration = case when 'maxLeaseDuration' = any($3::text[]) then excluded.max_lease_duration else queue.max_lease_duration end,
  retain_completed = case when 'retainCompleted' = any($3::text[]) then excluded.retain_completed else queue.retain_completed end,
  retain_payload = case when 'retainPayload' = any($3::text[]) then excluded.retain_payload else queue.retain_payload end,
  retain_dead = case when 'retainDead' = any($3::text[]) then excluded.retain_dead else queue.retain_dead end,
  idempotency_window = case when 'idempotencyWindow' = any($3::text[]) then excluded.idempotency_window else queue.idempotency_window end,
  max_payload_bytes = case when 'maxPayloadBytes' = any($3::text[]) then excluded.max_payload_bytes else queue.max_payload_bytes end,
  max_backlog = case when 'maxBacklog' = any($3::text[]) then excluded.max_backlog else queue.max_backlog end,
  dead_letter_queue_id = case when 'deadLetterQueue' = any($3::text[]) then excluded.dead_letter_queue_id else queue.dead_letter_queue_id end,
  max_in_flight = case when 'maxInFlight' = any($3::text[]) then excluded.max_in_flight else queue.max_in_flight end,
  rate_limit_jobs = case when 'rateLimit' = any($3::text[]) then excluded.rate_limit_jobs else queue.rate_limit_jobs end,
  rate_limit_per = case when 'rateLimit' = any($3::text[]) then excluded.rate_limit_per else queue.rate_limit_per end,
  updated_at = case when cardinality($3::text[]) > 0 then clock_timestamp() else queue.updated_at end
where queue.closed_at is null and coalesce(
  case when 'retainPayload' = any($3::text[]) then excluded.retain_payload else queue.retain_payload end <=
  case when 'retainCompleted' = any($3::text[]) then excluded.retain_completed else queue.retain_completed end, true)
returning id`,
};

const STANDING: Statement = {
  name: 'queue-put-standing',
  text: `select closing from queue where tenant_id = $1::uuid and name = $2 and (closed_at is null or closing)`,
};
