import { Type } from 'typebox';
import { Duration, Timestamp } from '../core/wire.js';
import { enqueueFields, MAX_AHEAD_MS, queueName } from '../jobs/enqueue-fields.js';
import { MISFIRES, OVERLAPS } from './plan-fires.js';

const { kind, payload, payloadBase64, contentType, priority, maxAttempts, retry, visibilityTimeout, headers } =
  enqueueFields;

export const UTC = 'UTC';
export const DEFAULT_MISFIRE = 'once';
export const DEFAULT_OVERLAP = 'allow';

export const scheduleName = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$',
  'x-pattern-hint': '[A-Za-z0-9][A-Za-z0-9._-]{0,79}',
  description: 'Name of the schedule.',
});

/** When a schedule fires. */
export const timingFields = {
  cron: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 256,
      description:
        'Five fields (minute, hour, day of month, month, day of week), or six with seconds first; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. Excludes `every`.',
    }),
  ),
  every: Type.Optional(
    Duration({
      minimum: 1_000,
      maximum: MAX_AHEAD_MS,
      description:
        'Regularly, counted from `startAt`, or from when the schedule was made or its `every` changed. Excludes `cron`.',
    }),
  ),
  timeZone: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      description: 'An IANA time zone, such as `Europe/Kyiv`. Default `UTC`.',
    }),
  ),
  startAt: Type.Optional(Timestamp({ description: 'Nothing fires before it.' })),
  endAt: Type.Optional(Timestamp({ description: 'Nothing fires at it or after it.' })),
};

/** What each of its jobs is made of. */
export const templateFields = {
  kind,
  payload,
  payloadBase64,
  contentType,
  priority,
  maxAttempts,
  retry,
  visibilityTimeout,
  headers,
  expiresAfter: Type.Optional(
    Duration({
      minimum: 1_000,
      maximum: MAX_AHEAD_MS,
      description: 'This long after a job was made no attempt of it starts any more: it is dead.',
    }),
  ),
};

export const policyFields = {
  misfire: Type.Optional(
    Type.Enum([...MISFIRES], {
      description:
        'What becomes of instants that nobody was there to fire: `skip` passes them over, `once` (the default) makes one job for the latest of them, `all` one for each of the latest 100.',
    }),
  ),
  overlap: Type.Optional(
    Type.Enum([...OVERLAPS], {
      description:
        'Whether an instant makes a job while the last one is scheduled, ready or leased: `allow` (the default) or `skip`.',
    }),
  ),
};

export const scheduleFields = {
  ...timingFields,
  queue: queueName,
  ...templateFields,
  ...policyFields,
  paused: Type.Optional(Type.Boolean({ description: 'Absent: as it was; false for a new one.' })),
};

/** Fields of which at most one may be given. */
export const EXCLUSIVE_TIMING = ['cron', 'every'];
export const EXCLUSIVE_PAYLOAD = ['payload', 'payloadBase64'];
