import { type Static, Type } from 'typebox';
import { QueuePattern } from '../core/queue-patterns.js';
import { Duration, Timestamp } from '../core/wire.js';
import type { Context } from '../core/operation.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';

const DAY_MS = 86_400_000;
export const MOST_IN_FLIGHT = 64;

export const EVENT_TYPES = ['job.dead', 'queue.backlog', 'schedule.failed'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export const webhookName = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$',
  'x-pattern-hint': '[A-Za-z0-9][A-Za-z0-9._-]{0,79}',
  description: 'Name of the webhook.',
});

const Backlog = Type.Object(
  {
    depth: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1_000_000_000, description: 'Ready jobs in the queue, or more.' }),
    ),
    oldestAge: Type.Optional(
      Duration({
        minimum: 1_000,
        maximum: 30 * DAY_MS,
        description: 'How long the oldest ready job has been ready, or longer.',
      }),
    ),
  },
  { description: 'From where on `queue.backlog` tells of a queue. At least one of the two.' },
);

/** How a webhook is set up. */
export const setUp = {
  url: Type.String(),
  events: Type.Array(Type.String()),
  queues: Type.Optional(Type.Array(Type.String(), { description: 'Absent: every queue.' })),
  backlog: Type.Optional(Backlog),
  includePayload: Type.Boolean(),
  maxInFlight: Type.Integer(),
  paused: Type.Boolean(),
};

/** What a caller says of a webhook. */
export const webhookFields = {
  url: Type.String({
    minLength: 1,
    maxLength: 2_048,
    'x-no-control': true,
    description:
      'Where events are posted to: https, without user name and password, at a public address unless the operator allows others.',
  }),
  events: Type.Array(
    Type.String({
      pattern: `^(${EVENT_TYPES.map((type) => type.replace('.', '\\.')).join('|')})$`,
      'x-pattern-hint': `one of ${EVENT_TYPES.join(', ')}`,
    }),
    { minItems: 1, uniqueItems: true, description: 'Which events: `job.dead`, `queue.backlog`, `schedule.failed`.' },
  ),
  queues: Type.Optional(
    Type.Array(QueuePattern, {
      minItems: 1,
      maxItems: 100,
      uniqueItems: true,
      description: 'Events of these queues only: names, or beginnings of names with `*`. All without.',
    }),
  ),
  backlog: Type.Optional(Backlog),
  includePayload: Type.Optional(
    Type.Boolean({ description: 'Whether `job.dead` holds the payload, up to 64 KiB. Default false.' }),
  ),
  maxInFlight: Type.Optional(
    Type.Integer({ minimum: 1, maximum: MOST_IN_FLIGHT, description: 'Deliveries at once. Default 4.' }),
  ),
  paused: Type.Optional(
    Type.Boolean({
      description:
        'Nothing is delivered while it is; events wait, up to 3 days. Absent: as it was; false for a new one.',
    }),
  ),
};

export const Webhook = Type.Object({
  name: Type.String(),
  ...setUp,
  disabled: Type.Boolean({
    description: 'Its endpoint has answered 410: nothing is kept or delivered for it until it is put again.',
  }),
  secret: Type.Optional(Type.String({ description: 'Signs deliveries: `whsec_…`. Only in the answer that makes it.' })),
  previousSecretUntil: Type.Optional(
    Timestamp({ description: 'Until then deliveries are signed with the secret of before, too.' }),
  ),
  delivery: Type.Object({
    waiting: Type.Integer({ description: 'Deliveries that wait, for their time or for an attempt, or are under way.' }),
    delivered: Type.Integer({ description: 'All that have arrived.' }),
    dead: Type.Integer({ description: 'Those given up, of the last 7 days.' }),
    dropped: Type.Integer({ description: 'Events that were not kept since 100,000 deliveries waited.' }),
    failures: Type.Integer({ description: 'Failed attempts since the last that arrived.' }),
    openUntil: Type.Optional(
      Timestamp({ description: 'The circuit is open: nothing is delivered before this, and then one to try.' }),
    ),
    lastError: Type.Optional(
      Type.String({ description: '`status 503`, `timeout`, `tls`, `no answer` or `not reachable`.' }),
    ),
    lastErrorAt: Type.Optional(Timestamp()),
  }),
  createdAt: Timestamp(),
  updatedAt: Timestamp(),
});
export type Webhook = Static<typeof Webhook>;

/** A webhook as the statements of `read-webhooks.ts` select it. */
export interface WebhookRow {
  readonly id: string;
  readonly name: string;
  readonly queueId: number;
  readonly url: string;
  readonly events: EventType[];
  readonly queues: string[] | null;
  readonly backlogDepth: number | null;
  readonly backlogAge: number | null;
  readonly includePayload: boolean;
  readonly maxInFlight: number;
  readonly secret: string;
  readonly previousSecret: string | null;
  readonly previousUntil: number | null;
  readonly paused: boolean;
  readonly disabled: boolean;
  readonly failures: number;
  readonly openUntil: number | null;
  readonly dropped: number;
  readonly lastError: string | null;
  readonly lastErrorAt: number | null;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly waiting: number;
  readonly delivered: number;
  readonly dead: number;
}

/** Brings a row into the form of the message. */
export function shownWebhook(row: WebhookRow): Webhook {
  const { backlogDepth: depth, backlogAge: age } = row;
  return {
    name: row.name,
    url: row.url,
    events: row.events,
    queues: row.queues ?? undefined,
    backlog: depth === null && age === null ? undefined : { depth: depth ?? undefined, oldestAge: age ?? undefined },
    includePayload: row.includePayload,
    maxInFlight: row.maxInFlight,
    paused: row.paused,
    disabled: row.disabled,
    previousSecretUntil: row.previousUntil ?? undefined,
    delivery: {
      waiting: row.waiting,
      delivered: row.delivered,
      dead: row.dead,
      dropped: row.dropped,
      failures: row.failures,
      openUntil: row.openUntil ?? undefined,
      lastError: row.lastError ?? undefined,
      lastErrorAt: row.lastErrorAt ?? undefined,
    },
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  };
}

/** Whether every queue that the webhook tells of is one that the caller may use. */
export function mayHandle({ caller }: Pick<Context<Engine>, 'caller'>, queues: readonly string[] | null): boolean {
  if (caller.queues === undefined) return true;
  return queues !== null && caller.queues.beyond(queues) === undefined;
}

/** What a caller is told who names a webhook that is not there, or tells of queues that the caller may not use. */
export function noSuchWebhook(): ServiceError {
  return new ServiceError('NOT_FOUND', 'no such webhook', { fields: [{ field: 'name', message: 'is not known' }] });
}
