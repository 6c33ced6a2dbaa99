import { fill } from '../fill.js';
import { measure } from '../measure.js';
import { rateOf } from '../merge.js';
import { atLeast, atMost, medianRow, row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import { interleaved } from '../rounds.js';
import type { BenchService } from '../service.js';
import { median } from '../statistics.js';

const CREDITS = 500;
const CONNECTIONS = 32;
const TIMES = 3;
const IDLE_STREAMS = 1_000;
const IDLE_SECONDS = 30;

/** What a worker stream brings beside calls for one job at a time, and what a thousand idle ones cost. */
export async function work(rig: Rig): Promise<Table> {
  const service = await rig.service();
  for (const queue of ['streamed', 'called']) {
    await service.queue(queue);
    rig.say(`filling ${queue} with ${rig.scale.million} jobs`);
    await fill(service.url, { queue, place: 'ready', rows: rig.scale.million });
  }
  const target = { bases: [service.grpc], key: service.key };
  const { a, b } = await interleaved(
    rig,
    {
      name: 'one stream',
      services: [service],
      loads: [{ kind: 'stream', target, streams: 1, credits: CREDITS, queue: 'streamed' }],
    },
    {
      name: 'calls',
      services: [service],
      loads: [{ kind: 'unary', target, connections: CONNECTIONS, queue: 'called' }],
    },
  );
  const rates = (all: typeof a): number[] => all.map((each) => rateOf(each, 'acked'));
  const times = rates(a).map((rate, index) => rate / rates(b)[index]!);
  // Another service, so that what clears up after the load does not count.
  const quiet = await rig.service();
  await quiet.queue('empty');
  const memory: number[] = [];
  const sampling = setInterval(() => void residentMiB(quiet).then((value) => memory.push(value)), 1_000);
  const warmSeconds = rig.scale.warmSeconds + 5;
  const idle = await measure(rig, {
    services: [quiet],
    loads: [
      {
        kind: 'stream',
        target: { bases: [quiet.grpc], key: quiet.key },
        streams: IDLE_STREAMS,
        credits: CREDITS,
        queue: 'empty',
      },
    ],
    warmSeconds,
    seconds: rig.scale.long(IDLE_SECONDS),
  });
  clearInterval(sampling);
  const steady = memory.slice(warmSeconds);
  const calls = idle.databaseCalls / idle.seconds;
  return {
    mode: 'work',
    title: `gRPC: one worker stream with ${CREDITS} credits beside ${CONNECTIONS} connections that lease and ack one job at a time`,
    rows: [
      medianRow('one stream', 'jobs/s', rates(a)),
      medianRow('calls', 'jobs/s', rates(b)),
      medianRow('the stream to the calls', 'times', times, atLeast(TIMES, median(times), 'times')),
      row(`database calls, ${IDLE_STREAMS} idle streams`, calls, 'calls/s', atMost(5, calls, 'calls/s')),
      row('processor time of the service for them', idle.cpu.service / idle.seconds / 1_000, 'millicores'),
      row('resident memory of the service with them, at first', steady[0] ?? NaN, 'MiB'),
      row('resident memory of the service with them, at last', steady.at(-1) ?? NaN, 'MiB'),
    ],
    notes: [],
  };
}

async function residentMiB(service: BenchService): Promise<number> {
  return (await service.metric('stint_process_resident_memory_bytes')) / 1_048_576;
}
