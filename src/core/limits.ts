import { type Static, Type } from 'typebox';

const MOST = 1_000_000_000;
const count = (maximum: number, description: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum, description }));

const shared = {
  requestsPerSecond: count(1_000_000, 'Calls. Calls within a worker stream are not counted.'),
  jobsPerSecond: count(1_000_000, 'Jobs enqueued.'),
  payloadBytes: count(2 * 1024 * 1024, 'The largest payload of a job, whatever its queue allows.'),
  parkedLeases: count(1_000_000, 'Leases, and calls that wait for the end of a job, which wait at once.'),
  streams: count(1_000_000, 'Worker streams open at once.'),
};

/** What one key may do, within what its tenant may. What is not named has no bound of its own. */
export const KeyLimits = Type.Object(shared);
export type KeyLimits = Static<typeof KeyLimits>;

/** What a tenant may do, all of its keys together. What is not named has no bound. */
export const TenantLimits = Type.Object({
  ...shared,
  storedJobs: count(MOST, 'Jobs scheduled, ready, leased and dead; may be passed by what comes within a second.'),
  queues: count(1_000_000, 'Queues.'),
  schedules: count(1_000_000, 'Schedules.'),
});
export type TenantLimits = Static<typeof TenantLimits>;

export const TENANT_LIMIT_NAMES = Object.keys(TenantLimits.properties) as (keyof TenantLimits)[];
