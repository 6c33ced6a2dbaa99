import { type Static, Type } from 'typebox';
import { Duration } from '../core/wire.js';
import { queueName } from '../jobs/enqueue-fields.js';
import { completeRetryPolicy, DEFAULT_RETRY, RetryPolicy } from '../jobs/retry-policy.js';

const SECOND_MS = 1000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const RETENTION = { minimum: 0, maximum: 365 * DAY_MS };

/** Settings that every queue has; what is not given stands at its default. */
const certain = {
  visibilityTimeout: Duration({
    minimum: SECOND_MS,
    maximum: 12 * HOUR_MS,
    description: 'How long a lease lasts unless the lease request or the job says otherwise. Default 30s.',
  }),
  maxAttempts: Type.Integer({
    minimum: 1,
    maximum: 1000,
    description: 'Failed attempts after which a job is dead. Default 5.',
  }),
  retry: RetryPolicy,
  retainCompleted: Duration({
    ...RETENTION,
    description: 'How long completed and cancelled jobs are kept. Default 24h.',
  }),
  retainDead: Duration({ ...RETENTION, description: 'How long dead jobs are kept. Default 30d.' }),
  idempotencyWindow: Duration({
    minimum: 0,
    maximum: 30 * DAY_MS,
    description: 'How long an idempotency key counts from its first enqueue. Default 24h.',
  }),
};

/** Settings that a queue may do without. */
const optional = {
  maxLeaseDuration: Type.Optional(
    Duration({
      minimum: SECOND_MS,
      maximum: 365 * DAY_MS,
      description: 'Heartbeats extend a lease no further than this from its start. Default: no bound.',
    }),
  ),
  retainPayload: Type.Optional(
    Duration({
      ...RETENTION,
      description:
        'How long the bodies of completed jobs are kept; never longer than retainCompleted, which is the default.',
    }),
  ),
  maxPayloadBytes: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 2 * 1024 * 1024, description: 'The largest payload taken. Default 256 KiB.' }),
  ),
  maxBacklog: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_000_000_000,
      description: 'Enqueue answers 429 BACKLOG_FULL beyond this many scheduled and ready jobs. Default: no bound.',
    }),
  ),
  maxInFlight: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'Jobs leased at once, at most. Default: no bound.' }),
  ),
  rateLimit: Type.Optional(
    Type.Object(
      {
        jobs: Type.Integer({ minimum: 1, maximum: 1_000_000 }),
        per: Duration({ minimum: SECOND_MS, maximum: DAY_MS }),
      },
      { description: 'Leases started within any such time, at most. Default: no bound.' },
    ),
  ),
  deadLetterQueue: Type.Optional(
    Type.String({ ...queueName, description: 'Dead jobs go on to this queue; it is made when there is none.' }),
  ),
};

/** The settings as a queue shows them. */
export const shownSettings = { ...certain, ...optional };

/** The settings as a request names them: each is changed whole, what is not named stays. */
export const NamedSettings = Type.Object({ ...Type.Partial(Type.Object(certain)).properties, ...optional });
export type NamedSettings = Static<typeof NamedSettings>;
export type SettingName = keyof NamedSettings;

/** What a setting is at when nobody has named it; the schema's column defaults say the same. */
export const DEFAULT_SETTINGS = {
  visibilityTimeout: 30 * SECOND_MS,
  maxAttempts: 5,
  retry: DEFAULT_RETRY,
  maxLeaseDuration: undefined,
  retainCompleted: DAY_MS,
  retainPayload: undefined,
  retainDead: 30 * DAY_MS,
  idempotencyWindow: DAY_MS,
  maxPayloadBytes: undefined,
  maxBacklog: undefined,
  maxInFlight: undefined,
  rateLimit: undefined,
  deadLetterQueue: undefined,
} as const satisfies Record<SettingName, unknown>;

export const SETTING_NAMES = Object.keys(DEFAULT_SETTINGS) as SettingName[];

/** What of a request's settings is given, with the retry policy whole. */
export function completeSettings(settings: NamedSettings): NamedSettings {
  return settings.retry === undefined ? settings : { ...settings, retry: completeRetryPolicy(settings.retry) };
}
