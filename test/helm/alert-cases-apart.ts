import { A, type AlertCase, B, pair } from './alert-case.js';

const RELAY = 'job="stint-relay",instance="r"';
const POD = 'namespace="jobs",pod="stint-1",job="stint"';

const runs = (task: string, result: string, values: string): string =>
  `stint_task_runs_total{${A},task="${task}",result="${result}"} ${values}`;

/** Of background tasks, of the relay, and of Kubernetes. */
export const CASES_APART: readonly AlertCase[] = [
  ...pair(
    'StintNotificationsUnhealthy',
    {
      when: 'for the instance that is deaf',
      series: [`stint_notifications_healthy{${A}} 1x9`, `stint_notifications_healthy{${B}} 0x9`],
      minute: 9,
      firing: ['{instance=b}'],
    },
    { when: 'while the database restarts', series: [`stint_notifications_healthy{${A}} 1 1 0 0 1x5`], minute: 9 },
  ),
  ...pair(
    'StintTaskStalled',
    {
      when: 'when no instance has run it',
      series: [
        `stint_task_last_success_timestamp_seconds{${A},task="prune"} 60x9`,
        `stint_task_last_success_timestamp_seconds{${A},task="poll"} 0+60x9`,
        `stint_task_last_success_timestamp_seconds{${A},task="prune-audit"} 0x9`,
      ],
      minute: 9,
      firing: ['{task=prune}'],
    },
    {
      when: 'when another instance has',
      series: [
        `stint_task_last_success_timestamp_seconds{${A},task="prune"} 0x9`,
        `stint_task_last_success_timestamp_seconds{${B},task="prune"} 0+60x9`,
      ],
      minute: 9,
    },
  ),
  ...pair(
    'StintTaskFailing',
    {
      when: 'when it fails again and again',
      series: [runs('prune', 'ok', '0x40'), runs('prune', 'error', '0+6x40')],
      minute: 40,
      firing: ['{task=prune}'],
    },
    {
      when: 'after one failure',
      series: [runs('prune', 'ok', '0+6x40'), runs('prune', 'error', '0 1x39')],
      minute: 40,
    },
  ),
  ...pair(
    'StintScheduleLag',
    {
      when: 'when schedules are late',
      series: [`stint_schedule_lag_seconds{${A}} 61+60x9`],
      minute: 9,
      firing: ['{}'],
    },
    { when: 'when they fire in time', series: [`stint_schedule_lag_seconds{${A}} 0 1 0 2 0x9`], minute: 9 },
  ),
  ...pair(
    'StintDueJobLag',
    {
      when: 'when due jobs do not become ready',
      series: [`stint_due_job_lag_seconds{${A}} 61+60x9`],
      minute: 9,
      firing: ['{}'],
    },
    { when: 'when they do', series: [`stint_due_job_lag_seconds{${A}} 0 1 0 2 0x9`], minute: 9 },
  ),
  ...pair(
    'StintSampleMissing',
    { when: 'when nobody samples', series: [`up{${A}} 1x19`], minute: 19, firing: ['{job=stint}'] },
    {
      when: 'while another instance takes over',
      series: [`stint_queue_jobs{${A},state="ready"} 1x6`, `stint_queue_jobs{${B},state="ready"} _x9 1x20`],
      minute: 19,
    },
  ),
  ...pair(
    'StintRelayAbsent',
    { when: 'when no relay is scraped', series: [], minute: 9, firing: ['{job=stint-relay}'] },
    { when: 'while one is', series: [`stint_relay_lag_seconds{${RELAY}} 0x9`], minute: 9 },
  ),
  ...pair(
    'StintRelayLag',
    { when: 'when a row waits', series: [`stint_relay_lag_seconds{${RELAY}} 901+60x9`], minute: 9, firing: ['{}'] },
    { when: 'while rows are sent', series: [`stint_relay_lag_seconds{${RELAY}} 3x9`], minute: 9 },
  ),
  ...pair(
    'StintRelayParked',
    { when: 'at the first parked row', series: [`stint_relay_parked_rows{${RELAY}} 0 1`], minute: 1, firing: ['{}'] },
    { when: 'without any', series: [`stint_relay_parked_rows{${RELAY}} 0x9`], minute: 9 },
  ),
  ...pair(
    'StintRelayUnreachable',
    {
      when: 'for the side that is away',
      series: [
        `stint_relay_reachable{${RELAY},side="database"} 1x9`,
        `stint_relay_reachable{${RELAY},side="stint"} 0x9`,
      ],
      minute: 9,
      firing: ['{side=stint}'],
    },
    { when: 'over a restart', series: [`stint_relay_reachable{${RELAY},side="stint"} 1 0 0 1x6`], minute: 9 },
  ),
  ...pair(
    'StintNotReady',
    {
      when: 'for a Pod that runs and is not ready',
      series: [
        `kube_pod_status_ready{${POD},condition="false"} 1x9`,
        `kube_pod_status_phase{${POD},phase="Running"} 1x9`,
      ],
      minute: 9,
      firing: ['{namespace=jobs, pod=stint-1}'],
    },
    {
      when: 'over one that has ended',
      series: [
        `kube_pod_status_ready{${POD},condition="false"} 1x9`,
        `kube_pod_status_phase{${POD},phase="Running"} 0x9`,
      ],
      minute: 9,
    },
  ),
];
