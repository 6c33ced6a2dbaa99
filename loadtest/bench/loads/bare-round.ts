import { randomFillSync } from 'node:crypto';
import { Departure } from '../../../src/core/departure.js';
import type { Start } from '../../../src/hotpath/lanes.js';
import type { Round } from '../../../src/hotpath/round.js';
import type { BareLoad } from '../messages.js';

/** A round of one caller that asks one queue for a whole batch, from where its lanes begin. */
export function roundFor({ queueId, tenantId, batch }: BareLoad, start: Start): Round {
  const request = {
    tenantId,
    queues: [{ name: 'bare', weight: 1 }],
    maxJobs: batch,
    wait: 0,
    visibilityTimeout: undefined,
    worker: undefined,
    departure: NEVER,
    park: () => () => undefined,
    idled: () => undefined,
  };
  return {
    waiters: [
      {
        request,
        queues: new Map([[queueId, { name: 'bare', weight: 1 }]]),
        unknown: new Map(),
        mustLook: true,
        busy: true,
        until: Infinity,
        timer: undefined,
        ended: undefined,
        unpark: undefined,
        idleSince: undefined,
        idle: 0,
        answer: () => undefined,
      },
    ],
    queues: [{ queueId, offset: 0, limit: batch, start, waiters: [0] }],
    slotWaiter: Array.from({ length: batch }, () => 0),
    slotPreference: Array.from({ length: batch }, () => 0),
    leaseIds: Array.from(randomFillSync(new BigInt64Array(batch)), String),
    partial: new Set(),
    version: 0,
    limited: [],
  };
}

const NEVER = new Departure();
