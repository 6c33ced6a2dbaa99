import { v7 } from 'uuid';
import { Connections, HOT_SETTINGS } from '../../../src/db/pool.js';
import { Lanes } from '../../../src/hotpath/lanes.js';
import { ackKind } from '../../../src/jobs/ack.js';
import { claimKind } from '../../../src/jobs/claim.js';
import type { EnqueueItem } from '../../../src/jobs/enqueue-fields.js';
import { enqueueKind } from '../../../src/jobs/enqueue-flush.js';
import { parseLeaseToken } from '../../../src/jobs/lease-token.js';
import { payload } from '../bodies.js';
import type { BareLoad } from '../messages.js';
import { roundFor } from './bare-round.js';
import type { Scene } from './scene.js';

/**
 * Enqueue, claim and ack in turn, until stopped, through the very functions that the service's batchers call: the same
 * statements and parameters, without HTTP, validation and batching.
 */
export async function bareLoad(load: BareLoad, scene: Scene): Promise<void> {
  const connections = new Connections({
    url: load.url,
    name: 'bare',
    size: 1,
    settings: HOT_SETTINGS,
    statementTimeout: 15_000,
    onCall: () => scene.tally.count('database calls'),
    onLost: (_pool, error) => scene.tally.error(error.message),
  });
  try {
    const lanes = new Lanes();
    while (!scene.stop.aborted) await once({ connections, lanes }, load, scene);
  } finally {
    await connections.close();
  }
}

interface Bare {
  readonly connections: Connections;
  readonly lanes: Lanes;
}

async function once({ connections, lanes }: Bare, load: BareLoad, { tally }: Scene): Promise<void> {
  await enqueueKind.flush(connections, [Array.from({ length: load.batch }, () => itemFor(load.queueId))], false);
  tally.count('enqueued', load.batch);
  const { jobs, taken } = await claimKind.claim(
    connections,
    roundFor(load, lanes.start(load.queueId)),
    () => undefined,
  );
  lanes.learn(load.queueId, taken.get(load.queueId) ?? new Map(), jobs.length >= load.batch);
  tally.count('leased', jobs.length);
  if (jobs.length === 0) return;
  const items = jobs.map(({ job: { job } }) => {
    const { leaseToken } = job;
    return { token: parseLeaseToken(leaseToken)!, item: { leaseToken } };
  });
  const results = await ackKind.flush(connections, items, false);
  const done = results.filter((result) => !(result instanceof Error) && result.outcome === 'OK').length;
  tally.count('acked', done);
  if (done < items.length) tally.error(`${items.length - done} acks of the bare cycle were not OK`);
}

const PAYLOAD = payload();

function itemFor(queueId: number): EnqueueItem {
  return {
    id: v7(),
    queueId,
    rank: 0,
    payload: PAYLOAD,
    size: PAYLOAD.length,
    kind: 'bench',
    contentType: undefined,
    isJson: true,
    headers: undefined,
    delay: undefined,
    runAt: undefined,
    maxAttempts: undefined,
    visibilityTimeout: undefined,
    retry: undefined,
    expiresAt: undefined,
    idempotency: undefined,
  };
}
