import { A, type AlertCase, B, pair } from './alert-case.js';

const code = (name: string, values: string): string =>
  `stint_operations_total{${A},operation="Ack",transport="http",code="${name}"} ${values}`;
const bucket = (operation: string, le: string, values: string): string =>
  `stint_operation_seconds_bucket{${A},operation="${operation}",transport="http",le="${le}"} ${values}`;
const delivered = (count: string, values: string): string =>
  `stint_task_rows_total{${A},task="deliver-webhooks",count="${count}"} ${values}`;

/** Of what callers feel, of queues, and of the database. */
export const SERVICE_CASES: readonly AlertCase[] = [
  ...pair(
    'StintAbsent',
    { when: 'when nothing has been scraped for five minutes', series: [], minute: 5, firing: ['{job=stint}'] },
    { when: 'while one of two is scraped', series: [`stint_parked_leases{${A}} 0x9`], minute: 9 },
  ),
  ...pair(
    'StintInstanceDown',
    {
      when: 'for the instance that is down',
      series: [`up{${A}} 1x9`, `up{${B}} 0x9`],
      minute: 9,
      firing: ['{instance=b, job=stint}'],
    },
    { when: 'on a restart', series: [`up{${A}} 1 1 0 0 1x5`], minute: 9 },
  ),
  ...pair(
    'StintErrors',
    {
      when: 'when one in fifty fails',
      series: [code('OK', '0+98x20'), code('UNAVAILABLE', '0+2x20')],
      minute: 20,
      firing: ['{}'],
    },
    { when: 'over refusals', series: [code('OK', '0+50x20'), code('RATE_LIMITED', '0+50x20')], minute: 20 },
  ),
  {
    alert: 'StintErrors',
    when: 'when there are no calls',
    series: [code('OK', '7x20'), code('INTERNAL', '3x20')],
    minute: 20,
    firing: [],
  },
  ...pair(
    'StintSlow',
    {
      when: 'for the operation that is slow',
      series: [
        ...['1', '2.5', '+Inf'].map((le) => bucket('Ack', le, '0+100x30')),
        bucket('Enqueue', '1', '0+50x30'),
        ...['2.5', '+Inf'].map((le) => bucket('Enqueue', le, '0+100x30')),
      ],
      minute: 30,
      firing: ['{operation=Enqueue}'],
    },
    {
      when: 'over one that may take its time',
      series: [bucket('Tick', '1', '0+50x30'), ...['2.5', '+Inf'].map((le) => bucket('Tick', le, '0+100x30'))],
      minute: 30,
    },
  ),
  ...pair(
    'StintPoolExhausted',
    {
      when: 'for the pool in which statements wait',
      series: [`stint_pool_waiting{${A},pool="ordinary"} 3x9`, `stint_pool_waiting{${A},pool="claim"} 0x9`],
      minute: 9,
      firing: ['{pool=ordinary}'],
    },
    { when: 'over a moment', series: [`stint_pool_waiting{${A},pool="ordinary"} 0 0 3 0x6`], minute: 9 },
  ),
  ...pair(
    'StintOldestReady',
    {
      when: 'for the queue, also when another instance takes over',
      series: [
        `stint_queue_oldest_ready_seconds{${A},tenant="acme",queue="mail"} 900+60x4`,
        `stint_queue_oldest_ready_seconds{${B},tenant="acme",queue="mail"} _x4 1200+60x9`,
        `stint_queue_oldest_ready_seconds{${A},tenant="acme",queue="other"} 5x14`,
      ],
      minute: 9,
      firing: ['{queue=mail, tenant=acme}'],
    },
    {
      when: 'over a backlog that is worked off in time',
      series: [`stint_queue_oldest_ready_seconds{${A},tenant="acme",queue="mail"} 800x9`],
      minute: 9,
    },
  ),
  ...pair(
    'StintDeadJobs',
    {
      when: 'at the first dead job',
      series: [`stint_jobs_total{${A},event="dead"} 0x5 1x5`],
      minute: 8,
      firing: ['{}'],
    },
    { when: 'over jobs that died long ago', series: [`stint_jobs_total{${A},event="dead"} 0 7x40`], minute: 40 },
  ),
  ...pair(
    'StintInvariantBreach',
    {
      when: 'for the rule that is broken',
      series: [
        `stint_invariant_breaches{${A},breach="in_no_place"} 2x5`,
        `stint_invariant_breaches{${A},breach="without_body"} 0x5`,
      ],
      minute: 5,
      firing: ['{breach=in_no_place}'],
    },
    { when: 'while all is well', series: [`stint_invariant_breaches{${A},breach="in_no_place"} 0x5`], minute: 5 },
  ),
  ...pair(
    'StintHorizonHeld',
    {
      when: 'for whoever holds it',
      series: [`stint_xmin_horizon_age_seconds{${A},holder="session"} 900+60x9`],
      minute: 9,
      firing: ['{holder=session}'],
    },
    {
      when: 'over a dump of ten minutes',
      series: [`stint_xmin_horizon_age_seconds{${A},holder="session"} 0+60x9 0x9`],
      minute: 18,
    },
  ),
  ...pair(
    'StintHorizonFar',
    {
      when: 'for a slot that is not used',
      series: [`stint_xmin_horizon_age_transactions{${A},holder="replication_slot"} 6000000x9`],
      minute: 9,
      firing: ['{holder=replication_slot}'],
    },
    {
      when: 'over one that is',
      series: [`stint_xmin_horizon_age_transactions{${A},holder="replication_slot"} 500x9`],
      minute: 9,
    },
  ),
  ...pair(
    'StintDeadRows',
    {
      when: 'for the hot table',
      series: [`stint_table_rows{${A},table="ready",state="dead"} 700000x20`],
      minute: 20,
      firing: ['{table=ready}'],
    },
    {
      when: 'over a large table, and live rows',
      series: [
        `stint_table_rows{${A},table="job",state="dead"} 700000x20`,
        `stint_table_rows{${A},table="ready",state="live"} 9000000x20`,
      ],
      minute: 20,
    },
  ),
  ...pair(
    'StintWebhooksFailing',
    {
      when: 'when most fail',
      series: [delivered('failed', '0+6x40'), delivered('delivered', '0+4x40')],
      minute: 40,
      firing: ['{}'],
    },
    {
      when: 'when one endpoint of many is down',
      series: [delivered('failed', '0+1x40'), delivered('delivered', '0+4x40')],
      minute: 40,
    },
  ),
];
