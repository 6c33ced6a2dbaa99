import { listAuditEvents } from './audit/list-events.js';
import { listOwnAuditEvents } from './audit/list-own-events.js';
import type { Operation } from './core/operation.js';
import { deleteWebhook } from './events/delete-webhook.js';
import { getWebhook } from './events/get-webhook.js';
import { listWebhooks } from './events/list-webhooks.js';
import { putWebhook } from './events/put-webhook.js';
import { redriveDeliveries } from './events/redrive-deliveries.js';
import { rotateWebhookSecret } from './events/rotate-webhook-secret.js';
import { testWebhook } from './events/test-webhook.js';
import type { Engine } from './hotpath/engine.js';
import { ack } from './jobs/ack.js';
import { cancelJob } from './jobs/cancel.js';
import { enqueue, enqueueBatch } from './jobs/enqueue.js';
import { getJob } from './jobs/get.js';
import { heartbeat } from './jobs/heartbeat.js';
import { lease } from './jobs/lease.js';
import { listJobs } from './jobs/list.js';
import { nack } from './jobs/nack.js';
import { release } from './jobs/release.js';
import { settle } from './jobs/settle.js';
import { updateJob } from './jobs/update.js';
import { deleteDead } from './queues/delete-dead.js';
import { deleteQueue } from './queues/delete.js';
import { getQueue } from './queues/get.js';
import { listQueues } from './queues/list.js';
import { pauseQueue } from './queues/pause.js';
import { purgeQueue } from './queues/purge.js';
import { putQueue } from './queues/put.js';
import { redriveDead } from './queues/redrive.js';
import { resumeQueue } from './queues/resume.js';
import { getQueueStats } from './queues/stats.js';
import { getMetricSpec } from './scaling/get-metric-spec.js';
import { getMetrics } from './scaling/get-metrics.js';
import { isScalerActive } from './scaling/is-active.js';
import { streamIsActive } from './scaling/stream-is-active.js';
import { deleteSchedule } from './schedules/delete.js';
import { getSchedule } from './schedules/get.js';
import { listSchedules } from './schedules/list.js';
import { pauseSchedule } from './schedules/pause.js';
import { previewSchedule } from './schedules/preview.js';
import { putSchedule } from './schedules/put.js';
import { resumeSchedule } from './schedules/resume.js';
import { runSchedule } from './schedules/run.js';
import { tick } from './schedules/tick.js';
import { createAdminKey, createApiKey, createOwnKey } from './tenants/create-key.js';
import { createTenant } from './tenants/create-tenant.js';
import { deleteTenant } from './tenants/delete-tenant.js';
import { getOwnTenant } from './tenants/get-own-tenant.js';
import { getTenant } from './tenants/get-tenant.js';
import { listAdminKeys, listApiKeys, listOwnKeys } from './tenants/list-keys.js';
import { listTenants } from './tenants/list-tenants.js';
import { resumeTenant } from './tenants/resume-tenant.js';
import { revokeAdminKey, revokeApiKey, revokeOwnKey } from './tenants/revoke-key.js';
import { rotateAdminKey, rotateApiKey, rotateOwnKey } from './tenants/rotate-key.js';
import { suspendTenant } from './tenants/suspend-tenant.js';
import { updateTenant } from './tenants/update-tenant.js';

/** Every operation of our own contract. */
export const operations: readonly Operation<Engine>[] = [
  enqueue,
  enqueueBatch,
  lease,
  heartbeat,
  ack,
  nack,
  release,
  settle,
  getJob,
  listJobs,
  updateJob,
  cancelJob,
  listQueues,
  getQueue,
  putQueue,
  deleteQueue,
  pauseQueue,
  resumeQueue,
  purgeQueue,
  getQueueStats,
  redriveDead,
  deleteDead,
  listSchedules,
  getSchedule,
  putSchedule,
  deleteSchedule,
  pauseSchedule,
  resumeSchedule,
  runSchedule,
  previewSchedule,
  tick,
  listWebhooks,
  getWebhook,
  putWebhook,
  deleteWebhook,
  rotateWebhookSecret,
  testWebhook,
  redriveDeliveries,
  getOwnTenant,
  listOwnKeys,
  createOwnKey,
  rotateOwnKey,
  revokeOwnKey,
  listOwnAuditEvents,
  createTenant,
  listTenants,
  getTenant,
  updateTenant,
  suspendTenant,
  resumeTenant,
  deleteTenant,
  createApiKey,
  listApiKeys,
  rotateApiKey,
  revokeApiKey,
  createAdminKey,
  listAdminKeys,
  rotateAdminKey,
  revokeAdminKey,
  listAuditEvents,
];

/** What KEDA calls, by the contract of its external scalers: gRPC alone serves it. */
export const scalerOperations = {
  isActive: isScalerActive,
  streamIsActive,
  getMetricSpec,
  getMetrics,
} as const satisfies Readonly<Record<string, Operation<Engine>>>;
