import type { Departure } from '../core/departure.js';
import { OWN_TENANT_ID } from '../core/names.js';
import type { Engine } from '../hotpath/engine.js';
import type { OutgoingAnswer } from '../hotpath/outgoing.js';
import { ackKind } from '../jobs/ack.js';
import { type Claimed, claimKind, moveBodiless } from '../jobs/claim.js';
import { announceHandedBack, type HandBack, handBackKind } from '../jobs/hand-back.js';
import { Circuit } from './circuit.js';
import { RETRY_DELAYS, RETRY_JITTER } from './delivery-settings.js';
import type { Endpoint } from './due-endpoints.js';
import { signedHeaders } from './signing.js';
import { errorOf, isDelivered, isGone, restOf } from './verdict.js';

const WORKER = 'webhooks';

/** Leases up to `most` deliveries of the endpoint's queue that are ready. */
export async function leaseDeliveries(
  engine: Engine,
  { id }: Endpoint,
  { most, departure }: { readonly most: number; readonly departure: Departure },
): Promise<readonly Claimed[]> {
  const claimed = await engine.waiters.lease(claimKind, {
    tenantId: OWN_TENANT_ID,
    queues: [{ name: id, weight: 1 }],
    maxJobs: most,
    wait: 0,
    visibilityTimeout: undefined,
    worker: WORKER,
    departure,
    park: () => () => undefined,
    idled: () => undefined,
  });
  const bodiless = claimed.filter(({ bodyMissing }) => bodyMissing);
  if (bodiless.length > 0) await moveBodiless(engine.database.settle, bodiless);
  return claimed.filter(({ bodyMissing }) => !bodyMissing);
}

/** What has come of one attempt: `stop` when no further one is to be made now. */
export type Attempted = 'delivered' | 'failed' | 'stop' | 'ended';

/**
 * Posts one delivery and settles it. A delivery whose settling fails, or whose process ends, is posted again when its lease has run out:
 * an event arrives at least once, under the same id.
 */
export async function attempt(
  engine: Engine,
  endpoint: Endpoint,
  { claimed, departure }: { readonly claimed: Claimed; readonly departure: Departure },
): Promise<Attempted> {
  const { job } = claimed;
  const message = { id: job.headers['webhook-id'] ?? job.id, body: job.payload ?? '' };
  const answer = await engine.poster.post({
    url: endpoint.url,
    headers: signedHeaders(message, endpoint.secrets),
    body: message.body,
    departure,
  });
  if (isDelivered(answer)) return arrived(engine, endpoint, claimed);
  if ('error' in answer && answer.error === 'ended') {
    await handBack(engine, claimed, { ended: 'released', delay: 0, final: false, error: undefined });
    return 'ended';
  }
  return failed(engine, endpoint, { claimed, answer });
}

async function arrived(engine: Engine, endpoint: Endpoint, claimed: Claimed): Promise<Attempted> {
  const item = { token: tokenOf(claimed), item: { leaseToken: claimed.job.leaseToken } };
  await engine.batches.submit(ackKind, { tenantId: OWN_TENANT_ID, item, rows: 1, bytes: 0, keys: [claimed.jobId] });
  if (endpoint.hasFailed || endpoint.isProbe) {
    await new Circuit(engine.database.tasks, endpoint.id).succeeded(endpoint.isProbe);
  }
  return 'delivered';
}

async function failed(
  engine: Engine,
  { id, isProbe }: Endpoint,
  { claimed, answer }: { readonly claimed: Claimed; readonly answer: OutgoingAnswer },
): Promise<Attempted> {
  const message = errorOf(answer)!;
  const error = JSON.stringify({ message, type: 'webhook' });
  const circuit = new Circuit(engine.database.tasks, id);
  if (isGone(answer)) {
    await handBack(engine, claimed, { ended: 'nacked', delay: undefined, final: true, error });
    await circuit.disable(message);
    return 'stop';
  }
  const rest = restOf(answer);
  await handBack(engine, claimed, { ended: 'nacked', delay: delayOf(claimed.job.attempt, rest), final: false, error });
  return (await circuit.failed({ error: message, isProbe, rest: spread(rest) })) ? 'stop' : 'failed';
}

/** What the queue's policy says, unless the endpoint asks for more. */
function delayOf(attempted: number, rest: number | undefined): number | undefined {
  if (rest === undefined) return undefined;
  const policy = RETRY_DELAYS[Math.min(attempted, RETRY_DELAYS.length) - 1]!;
  return spread(Math.max(policy, rest));
}

/** Only ever longer, so that what failed together does not come back together. */
function spread(milliseconds: number): number;
function spread(milliseconds: number | undefined): number | undefined;
function spread(milliseconds: number | undefined): number | undefined {
  return milliseconds === undefined ? undefined : Math.round(milliseconds * (1 + Math.random() * RETRY_JITTER));
}

async function handBack(engine: Engine, claimed: Claimed, item: HandBack): Promise<void> {
  const token = tokenOf(claimed);
  const result = await engine.batches.submit(handBackKind, {
    tenantId: OWN_TENANT_ID,
    item: { token, item },
    rows: 1,
    bytes: item.error?.length ?? 0,
    keys: [claimed.jobId],
  });
  if (result.outcome === 'OK') announceHandedBack(engine, token, result);
}

function tokenOf({ jobId, queueId, leaseId, job }: Claimed) {
  return { jobId, queueId, leaseId, epoch: job.leaseEpoch };
}
