import type { Operation } from './core/operation.js';
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
import { createApiKey } from './tenants/create-api-key.js';
import { createTenant } from './tenants/create-tenant.js';
import { getTenant } from './tenants/get-tenant.js';
import { listApiKeys } from './tenants/list-api-keys.js';
import { listTenants } from './tenants/list-tenants.js';
import { revokeApiKey } from './tenants/revoke-api-key.js';

/** Every operation there is. */
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
  createTenant,
  listTenants,
  getTenant,
  createApiKey,
  listApiKeys,
  revokeApiKey,
];
