import assert from 'node:assert/strict';
import type { Answer, Client, TestService } from '../helpers/service.js';

export const UNKNOWN_ID = '018f0000-0000-7000-8000-000000000000';

/** Enqueues one job and answers its id. */
export async function enqueue(client: Client, queue: string, fields: object | string = {}): Promise<string> {
  const made = await client.post(`/v1/queues/${queue}/jobs`, fields);
  assert.equal(made.status, 201, made.text);
  return made.body.id as string;
}

/** Leases and answers the jobs. */
export async function lease(client: Client, queue: string, more: object = {}): Promise<any[]> {
  const answer = await client.post(`/v1/queues/${queue}/lease`, more);
  assert.equal(answer.status, 200, answer.text);
  return answer.body.jobs as any[];
}

/** Leases the one job that must be there, or come within 5 s. */
export async function leaseOne(client: Client, queue: string, more: object = {}): Promise<any> {
  const jobs = await lease(client, queue, { wait: '5s', ...more });
  assert.equal(jobs.length, 1);
  return jobs[0];
}

/** Enqueues a job and leases it. */
export async function leased(client: Client, queue: string, fields: object = {}, more: object = {}): Promise<any> {
  const id = await enqueue(client, queue, fields);
  const job = await leaseOne(client, queue, more);
  assert.equal(job.id, id);
  return job;
}

export type Verb = 'ack' | 'nack' | 'release' | 'heartbeat';

/** The call for one lease, `/v1/jobs/{id}/{verb}`. */
export function settle(
  client: Client,
  verb: Verb,
  job: { id: string; leaseToken: string },
  more: object = {},
): Promise<Answer> {
  return client.post(`/v1/jobs/${job.id}/${verb}`, { leaseToken: job.leaseToken, ...more });
}

/** The same, and it must be OK. */
export async function settleOk(
  client: Client,
  verb: Verb,
  job: { id: string; leaseToken: string },
  more: object = {},
): Promise<any> {
  const answer = await settle(client, verb, job, more);
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.body.outcome, 'OK');
  return answer.body;
}

export async function get(client: Client, id: string): Promise<any> {
  const answer = await client.get(`/v1/jobs/${id}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.body;
}

export async function putQueue(client: Client, queue: string, settings: object = {}): Promise<void> {
  const answer = await client.put(`/v1/queues/${queue}`, settings);
  assert.equal(answer.status, 200, answer.text);
}

/** Moves the ends of these jobs' leases into the past. */
export async function runOut(service: TestService, ids: readonly string[]): Promise<void> {
  await service.sql(
    `update stint.lease set lease_expires_at = clock_timestamp() - interval '1 millisecond' where job_id = any($1::uuid[])`,
    [ids],
  );
}

/** Moves leases back in time, as if they had been taken that much earlier. */
export async function age(service: TestService, ids: readonly string[], seconds: number): Promise<void> {
  await service.sql(
    `update stint.lease
     set leased_at = leased_at - $2 * interval '1 s', lease_expires_at = lease_expires_at - $2 * interval '1 s',
       max_until = max_until - $2 * interval '1 s'
     where job_id = any($1::uuid[])`,
    [ids, seconds],
  );
}

/** Makes waiting jobs due. */
export async function makeDue(service: TestService, ids: readonly string[]): Promise<void> {
  await service.sql(
    `update stint.scheduled set due_at = clock_timestamp() - interval '1 millisecond' where job_id = any($1::uuid[])`,
    [ids],
  );
}

export interface Problem {
  readonly status: number;
  readonly code: string;
  /** The fields that must be named, in their order. */
  readonly fields?: readonly string[];
  /** What must be said of the first of them, or in the detail. */
  readonly says?: RegExp;
}

/** A refusal as the contract describes it: a problem document with this code that names these fields. */
export function assertProblem(answer: Answer, { status, code, fields, says }: Problem): void {
  assert.equal(answer.status, status, answer.text.slice(0, 500));
  assert.match(answer.headers.get('content-type') ?? '', /^application\/problem\+json/);
  const { body } = answer;
  assert.equal(body.code, code);
  assert.equal(body.status, status);
  assert.equal(body.requestId, answer.headers.get('x-request-id'));
  for (const member of ['type', 'title', 'detail']) assert.equal(typeof body[member], 'string', member);
  if (fields !== undefined) {
    assert.deepEqual(
      (body.errors ?? []).map(({ field }: { field: string }) => field),
      fields,
    );
  }
  if (says !== undefined) assert.match(`${body.errors?.[0]?.message ?? ''}\n${body.detail}`, says);
}

export const invalid = (field: string | readonly string[], says?: RegExp): Problem => ({
  status: 400,
  code: 'INVALID_ARGUMENT',
  fields: typeof field === 'string' ? [field] : field,
  ...(says === undefined ? {} : { says }),
});

export const tooLarge = (field: string, says: RegExp): Problem => ({
  status: 413,
  code: 'PAYLOAD_TOO_LARGE',
  fields: [field],
  says,
});

export const NOT_FOUND: Problem = { status: 404, code: 'NOT_FOUND' };
export const CONFLICT: Problem = { status: 409, code: 'CONFLICT' };
export const LEASE_LOST: Problem = { status: 409, code: 'LEASE_LOST' };

/** A timestamp of an answer, in milliseconds. */
export const at = (timestamp: string): number => Date.parse(timestamp);

/** A duration of an answer (`"1.5s"`), in milliseconds. */
export function milliseconds(duration: string): number {
  assert.match(duration, /^\d+(\.\d+)?s$/);
  return Math.round(Number(duration.slice(0, -1)) * 1000);
}

/** The text of a member of a JSON answer, to the byte; its value must not hold `,"` outside of strings it is cut at. */
export function rawMember(text: string, name: string, length: number): string {
  const start = text.indexOf(`"${name}":`);
  assert.ok(start >= 0, `${name} is not in ${text.slice(0, 300)}`);
  return text.slice(start + name.length + 3, start + name.length + 3 + length);
}
