import { measure, type Measured } from '../measure.js';
import { rateOf } from '../merge.js';
import type { Rig } from '../rig.js';
import type { BenchService } from '../service.js';
import { query } from '../sql.js';

const TRIAL_BATCH = 100;

export interface Bare {
  /** The number of connections at which the cycle is fastest. */
  readonly connections: number;
  readonly run: (connections: number, batch: number) => Promise<Measured>;
}

/** Tries the bare SQL cycle on a queue of its own; each connection is of a process of its own. */
export async function bestBare(rig: Rig, service: BenchService): Promise<Bare> {
  await service.queue('bare');
  const [queue] = await query<{ id: number }>(service.url, `select id from queue where name = 'bare'`);
  const run = (connections: number, batch: number): Promise<Measured> =>
    measure(rig, {
      services: [],
      loads: Array.from({ length: connections }, () => ({
        kind: 'bare' as const,
        url: service.url,
        tenantId: service.tenantId,
        queueId: queue!.id,
        batch,
      })),
    });
  let best = { connections: 0, rate: 0 };
  for (const connections of rig.scale.connections) {
    const rate = rateOf(await run(connections, TRIAL_BATCH), 'acked');
    rig.say(`  ${connections}: ${Math.round(rate)} jobs/s`);
    if (rate > best.rate) best = { connections, rate };
  }
  return { connections: best.connections, run };
}
