import { Caller } from '../caller.js';
import { Histogram } from '../histogram.js';
import { stopAll, watch, type Measured } from '../measure.js';
import { rateOf } from '../merge.js';
import { type Receiver, startReceiver } from '../receiver.js';
import { atMost, row, type Row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import type { BenchService } from '../service.js';
import { query } from '../sql.js';
import { mean } from '../statistics.js';
import { fullCycle, targetOf } from './table.js';

const RATE = 1_000;
/** Single cycles a second, whose leases find their job at once. */
const PROBES = 20;
const RETAIN_SECONDS = 60;
/** A finished job's row is kept for ten minutes at least, its body for as long as is asked for. */
const SECONDS = 900;
const STRETCHES = 60;
const FINISHED_KEPT_SECONDS = 600;
const GROWTH = 1.1;
const SLOWER = 2;

/** Jobs a second that die, each with an idempotency key, and how many go with one administrative act. */
const MORTALS = { rate: 100, batch: 10 };

/** How many rows there are of what is kept for a while, or until it is told. */
const KEPT = {
  bodies: 'job',
  'finished jobs': 'finished',
  'dead jobs': 'dead',
  'idempotency keys': 'idempotency',
  'audit events': 'audit_event',
  'events to be told': 'event',
} as const;
type Kept = Record<keyof typeof KEPT, number[]>;
const NAMES = Object.keys(KEPT) as (keyof typeof KEPT)[];

/** Whether pruning keeps up with what is finished, dead, keyed, told and written down, and what it does to leases. */
export async function retention(rig: Rig): Promise<Table> {
  const receiver = await startReceiver();
  try {
    return await kept(rig, receiver);
  } finally {
    receiver.close();
  }
}

async function kept(rig: Rig, receiver: Receiver): Promise<Table> {
  const service = await rig.service({ env: { STINT_WEBHOOK_ALLOW_NETWORKS: '127.0.0.1/32' } });
  await prepare(service, receiver);
  const target = targetOf(service);
  const generators = [rig.generator(0), rig.generator(1), rig.generator(2)];
  await generators[0]!.start({ ...fullCycle(target, { queues: ['kept'], batch: 20 }), rate: RATE });
  await generators[1]!.start({ kind: 'single-cycle', target, clients: 10, queue: 'probe', rate: PROBES });
  await generators[2]!.start({ kind: 'mortal', target, queue: 'mortal', ...MORTALS });
  const seconds = rig.scale.long(SECONDS) / STRETCHES;
  const series = Object.fromEntries(NAMES.map((name) => [name, []])) as unknown as Kept;
  const all: Measured[] = [];
  for (let stretch = 1; stretch <= STRETCHES; stretch += 1) {
    all.push(await watch(rig, { services: [service], generators, seconds }));
    const [rows] = await query<Record<keyof Kept, number>>(service.url, COUNT);
    for (const name of NAMES) series[name].push(rows![name]);
    rig.say(`kept: ${JSON.stringify(rows)}`);
  }
  await stopAll(rig, generators);
  const at = (second: number): number => Math.round((second / SECONDS) * STRETCHES);
  const p99 = (from: number, to: number): number => {
    const leases = new Histogram();
    for (const { latencies } of all.slice(at(from), at(to))) leases.merge(latencies['lease']?.toBuckets() ?? []);
    return leases.quantile(0.99);
  };
  const [before, after] = [p99(0, RETAIN_SECONDS), p99(FINISHED_KEPT_SECONDS + RETAIN_SECONDS, SECONDS)];
  return {
    mode: 'retention',
    title: `${RATE} jobs/s and ${MORTALS.rate} that die; completed and dead jobs, keys and audit events retained for ${RETAIN_SECONDS} s`,
    rows: [
      row('full cycle', mean(all.map((each) => rateOf(each, 'acked'))), 'jobs/s'),
      row('jobs that died', mean(all.map((each) => rateOf(each, 'died'))), 'jobs/s'),
      row('deaths told to a webhook', receiver.received, 'deliveries'),
      row('most events that waited to be told', Math.max(...series['events to be told']), 'events'),
      ...growthRows(rig, {
        bodies: series.bodies.slice(at(2 * RETAIN_SECONDS)),
        'dead jobs': series['dead jobs'].slice(at(2 * RETAIN_SECONDS)),
        'idempotency keys': series['idempotency keys'].slice(at(2 * RETAIN_SECONDS)),
        'audit events': series['audit events'].slice(at(4 * RETAIN_SECONDS)),
        'finished jobs': series['finished jobs'].slice(at(FINISHED_KEPT_SECONDS + RETAIN_SECONDS)),
      }),
      row('lease p99 before anything is pruned', before, 'ms'),
      row(
        'lease p99 while both are pruned',
        after,
        'ms',
        rig.scale.quick ? {} : atMost(Math.max(50, SLOWER * before), after, 'ms'),
      ),
    ],
    series,
    notes: [
      `a value of a series each ${seconds} s`,
      ...(rig.scale.quick ? ['too short for anything to be pruned: run it in full'] : []),
    ],
  };
}

// An audit log is kept for days: here each event is written down as one of 400 days ago but for the time that the others have. The first
// are past that, so that the task that looks for them each minute, or seldom while there are none, begins at once.
const AGE_ACTS = `create function stint.age_act() returns trigger language plpgsql
as 'begin new.at = new.at - interval ''400 days'' + interval ''${RETAIN_SECONDS} seconds''; return new; end';
create trigger age_act before insert on stint.audit_event for each row execute function stint.age_act();
update stint.audit_event set at = at - interval '401 days'`;

const COUNT = `select ${NAMES.map((name) => `(select count(*)::int from stint.${KEPT[name]}) as "${name}"`).join(', ')}`;

/** What waits for its webhook is kept as the rest is, and not for the hour that it has otherwise. */
const KEEP_DELIVERIES = `update stint.queue set retain_completed = ${RETAIN_SECONDS * 1_000}
where id = (select queue_id from stint.webhook)`;

async function prepare(service: BenchService, { url }: Receiver): Promise<void> {
  const time = `${RETAIN_SECONDS}s`;
  for (const queue of ['kept', 'probe']) await service.queue(queue, { retainCompleted: time });
  await service.queue('mortal', { retainDead: time, idempotencyWindow: time });
  const caller = new Caller(service.base, service.key);
  const hook = JSON.stringify({ url, events: ['job.dead'], maxInFlight: 16 });
  const { status, text } = await caller.call('PUT', '/v1/webhooks/deaths', hook);
  await caller.close();
  if (status >= 300) throw new Error(`the webhook was not made: ${status} ${text}`);
  await query(service.url, KEEP_DELIVERIES);
  await query(service.url, AGE_ACTS);
}

/** From when on rows are pruned as they come: the last ones are hardly more than the first. */
function growthRows(rig: Rig, series: Readonly<Record<string, readonly number[]>>): Row[] {
  return Object.entries(series).map(([name, values]) => {
    const third = Math.max(1, Math.floor(values.length / 3));
    const growth = mean(values.slice(-third)) / mean(values.slice(0, third));
    const promised = rig.scale.quick ? {} : { promise: `≤ ${GROWTH} times`, held: growth <= GROWTH };
    return row(`${name} kept, last third to first third since they are pruned`, growth, 'times', promised);
  });
}
