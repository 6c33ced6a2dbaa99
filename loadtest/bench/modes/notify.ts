import { stoppedListener } from '../held-horizon.js';
import { measure } from '../measure.js';
import { rateOf } from '../merge.js';
import type { EnqueueLoad } from '../messages.js';
import { medianRow, ratioRow, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import type { BenchService } from '../service.js';
import { SINGLE_CLIENTS, targetOf } from './table.js';

/** Whether those who listen for wake-ups slow those who enqueue. */
export async function notify(rig: Rig): Promise<Table> {
  const service = await rig.service();
  const [alone, heard]: [number[], number[]] = [[], []];
  const loads: EnqueueLoad[] = [
    { kind: 'enqueue', target: targetOf(service), clients: SINGLE_CLIENTS, batch: 1, queue: 'notify' },
  ];
  const rate = async (): Promise<number> => rateOf(await measure(rig, { services: [service], loads }), 'enqueued');
  await rate();
  for (let round = 1; round <= rig.scale.rounds; round += 1) {
    rig.say(`round ${round}: nobody else listens`);
    alone.push(await rate());
    rig.say(`round ${round}: a second instance and a stopped session listen`);
    heard.push(await whileHeard(rig, service, rate));
  }
  return {
    mode: 'notify',
    title: `single enqueues by ${SINGLE_CLIENTS} clients while others listen for wake-ups`,
    rows: [
      medianRow('enqueue, nobody else listens', 'jobs/s', alone),
      medianRow('enqueue, a second instance and a stopped session listen', 'jobs/s', heard),
      ratioRow('with listeners to without', { of: heard, to: alone }, 90),
    ],
    notes: [],
  };
}

async function whileHeard(rig: Rig, service: BenchService, rate: () => Promise<number>): Promise<number> {
  const second = await rig.service({ url: service.url, like: service });
  const session = await stoppedListener(service.url);
  try {
    return await rate();
  } finally {
    await session.letGo();
    await rig.stop(second);
  }
}
