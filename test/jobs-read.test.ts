import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { v7 } from 'uuid';
import { Departure } from '../src/core/departure.js';
import type { Context, Operation, Tenant } from '../src/core/operation.js';
import { compileValidator } from '../src/core/validate.js';
import { ServiceError } from '../src/errors.js';
import type { Engine } from '../src/hotpath/engine.js';
import { cancelJob } from '../src/jobs/cancel.js';
import { getJob } from '../src/jobs/get.js';
import type { Job } from '../src/jobs/job.js';
import { listJobs } from '../src/jobs/list.js';
import { updateJob } from '../src/jobs/update.js';
import { watchEndings } from '../src/tasks/watch-endings.js';
import { addTenant, openParts, type Parts, until } from './tenants/parts.js';

const AT = 1_800_000_000_123_457;
const DAY = 86_400_000_000;
const iso = (micros: number): string =>
  `${new Date(Math.floor(micros / 1000)).toISOString().slice(0, 23)}${String(micros % 1000).padStart(3, '0')}Z`;

let parts: Parts;
let tenant: Tenant;
let context: Context<Engine>;
let queueId: number;
let queue: string;

before(async () => {
  parts = await openParts();
  tenant = await addTenant(parts);
  context = parts.as(tenant);
  ({ queueId, queue } = await addQueue(tenant));
});
after(() => parts.close());

async function addQueue({ id }: Tenant) {
  const queue = `q-${v7()}`;
  const [row] = await parts.sql('insert into stint.queue (tenant_id, name) values ($1, $2) returning id', [id, queue]);
  return { queueId: row.id as number, queue };
}

/** Inserts a row of the columns given. */
async function insert(table: string, row: Record<string, unknown>): Promise<void> {
  const names = Object.keys(row);
  await parts.sql(
    `insert into stint.${table} (${names.join(', ')}) values (${names.map((_, index) => `$${index + 1}`).join(', ')})`,
    Object.values(row),
  );
}

async function addBody(more: Record<string, unknown> = {}): Promise<string> {
  const body = {
    id: v7(),
    queue_id: queueId,
    is_json: true,
    priority: 0,
    run_at: iso(AT),
    created_at: iso(AT),
    ...more,
  };
  await insert('job', body);
  return body.id;
}

const carried = () => ({ queue_id: queueId, epoch: 0, attempt: 0, releases: 0, size: 0 });

const place = {
  ready: (job_id: string, more = {}) =>
    insert('ready', { ...carried(), rank: 0, job_id, ready_at: iso(AT), ended: 'none', ...more }),
  scheduled: (job_id: string, more = {}) =>
    insert('scheduled', { ...carried(), rank: 0, job_id, due_at: iso(AT + DAY), ended: 'none', ...more }),
  lease: (job_id: string, more = {}) =>
    insert('lease', {
      ...carried(),
      rank: 0,
      job_id,
      lease_id: 7,
      epoch: 1,
      attempt: 1,
      duration: 30_000,
      worker: 'w',
      leased_at: iso(AT),
      lease_expires_at: iso(AT + DAY * 3650),
      ...more,
    }),
  dead: (job_id: string, more = {}) =>
    insert('dead', { ...carried(), rank: 0, job_id, ended_at: iso(AT), reason: 'final', ended: 'nacked', ...more }),
  finished: (job_id: string, more = {}) => {
    return insert('finished', {
      queue_id: queueId,
      releases: 0,
      rank: 0,
      job_id,
      epoch: 1,
      attempt: 1,
      lease_id: 7,
      started_at: iso(AT),
      ended_at: iso(AT + 5),
      state: 'completed',
      ended: 'acked',
      worker: 'w',
      ...more,
    });
  },
};

const attempt = (job_id: string, epoch: number, more: Record<string, unknown> = {}) =>
  insert('attempt', {
    job_id,
    epoch,
    attempt: epoch,
    lease_id: epoch,
    started_at: iso(AT),
    ended_at: iso(AT + epoch),
    outcome: 'nacked',
    ...more,
  });

const run = <T>(operation: Operation<Engine>, input: Record<string, unknown>, as = context): Promise<T> => {
  compileValidator(operation.input)(input);
  return operation.run(as, input as never) as Promise<T>;
};
const get = (id: string, as = context) => run<Job>(getJob, { id }, as);
const list = (input: Record<string, unknown> = {}) =>
  run<{ jobs: Job[]; nextCursor?: string }>(listJobs, { queue, ...input });

async function allPages(input: Record<string, unknown>): Promise<{ ids: string[]; pages: number }> {
  const ids: string[] = [];
  for (let cursor: string | undefined, pages = 1; ; pages++) {
    const page = await list({ ...input, ...(cursor === undefined ? {} : { cursor }) });
    ids.push(...page.jobs.map(({ id }) => id));
    if (page.nextCursor === undefined) return { ids, pages };
    cursor = page.nextCursor;
  }
}

const counts = async () => {
  const [row] = await parts.sql(
    `select sum(ready)::int as ready, sum(scheduled)::int as scheduled, sum(leased)::int as leased from stint.queue_count where queue_id = $1`,
    [queueId],
  );
  return row as { ready: number; scheduled: number; leased: number };
};

const code = (expected: string, field?: string) => (error: unknown) => {
  assert.ok(error instanceof ServiceError, String(error));
  assert.equal(error.code, expected);
  if (field !== undefined) assert.equal(error.fields[0]?.field, field);
  return true;
};

describe('a job', () => {
  test('shows its own enqueue fields, and its queue’s where it has none', async () => {
    const retry = { type: 'fixed', delays: [1000] };
    const own = await addBody({
      kind: 'mail',
      priority: 3,
      max_attempts: 9,
      visibility_timeout: 1000,
      retry,
      idempotency_key: 'k',
      headers: '{"a":"b"}',
      expires_at: iso(AT + DAY),
    });
    await place.ready(own, { rank: -3, attempt: 2, releases: 1 });
    const { id, kind, priority, maxAttempts, visibilityTimeout, idempotencyKey, headers, expiresAt, ...job } =
      await get(own);
    assert.deepEqual(
      { id, kind, priority, maxAttempts, visibilityTimeout, idempotencyKey, headers, expiresAt },
      {
        id: own,
        kind: 'mail',
        priority: 3,
        maxAttempts: 9,
        visibilityTimeout: 1000,
        idempotencyKey: 'k',
        headers: { a: 'b' },
        expiresAt: AT + DAY,
      },
    );
    assert.deepEqual([job.queue, job.state, job.attempt, job.releases, job.retry], [queue, 'ready', 2, 1, retry]);
    assert.deepEqual([job.enqueuedAt, job.runAt, job.cancelRequested, job.attempts], [AT, AT, false, []]);
    const plain = await addBody();
    await place.ready(plain);
    const inherited = await get(plain);
    assert.deepEqual(
      [inherited.maxAttempts, inherited.visibilityTimeout, inherited.retry?.type],
      [5, 30_000, 'exponential'],
    );
    assert.deepEqual(
      [inherited.headers, inherited.contentType, inherited.payload],
      [{}, 'application/json', undefined],
    );
    assert.equal(Object.is(inherited.priority, 0), true);
  });

  test('keeps the bytes of payload, result, progress and error detail', async () => {
    const text = '{"b":9007199254740993,"a":1.0,"a":1e400,"s":"\\u0000\\ud800","z":-0}';
    const id = await addBody({ payload: Buffer.from(text) });
    await place.finished(id, { result: Buffer.from(text) });
    await attempt(id, 0, { error: `{"message":"no \\" luck","type":"T","detail":${text}}` });
    const job = await get(id);
    assert.equal(job.payload, text);
    assert.equal(job.result, text);
    assert.deepEqual(job.lastError, { message: 'no " luck', type: 'T', detail: text, attempt: 0 });
    assert.equal(job.attempts?.[0]?.error?.detail, text);
    const leased = await addBody();
    await place.lease(leased, { progress: text });
    assert.equal((await get(leased)).progress, text);
  });

  test('shows a payload that is not JSON as bytes', async () => {
    const id = await addBody({
      payload: Buffer.from([0, 255]),
      is_json: false,
      content_type: 'application/octet-stream',
    });
    await place.ready(id);
    const job = await get(id);
    assert.deepEqual([job.payload, job.payloadBase64], [undefined, Buffer.from([0, 255])]);
  });

  test('is told by the table it stands in', async () => {
    const [scheduled, leased, dead, cancelled] = await Promise.all([addBody(), addBody(), addBody(), addBody()]);
    await place.scheduled(scheduled);
    await place.lease(leased, { cancel_requested: true, lease_expires_at: iso(AT + 1) });
    await place.dead(dead, { reason: 'attempts_spent' });
    await place.finished(cancelled, { state: 'cancelled', ended: 'none', started_at: null });
    assert.deepEqual([(await get(scheduled)).state, (await get(scheduled)).runAt], ['scheduled', AT + DAY]);
    const held = await get(leased);
    assert.deepEqual(
      [held.state, held.worker, held.leaseExpiresAt, held.cancelRequested],
      ['leased', 'w', AT + 1, true],
    );
    const buried = await get(dead);
    assert.deepEqual([buried.state, buried.deadReason, buried.finishedAt], ['dead', 'attempts_spent', AT]);
    const ended = await get(cancelled);
    assert.deepEqual([ended.state, ended.attempts], ['cancelled', []]);
  });

  test('still counts as leased when its lease has run out and nobody has noticed', async () => {
    const id = await addBody();
    await place.lease(id, { lease_expires_at: iso(1_000_000) });
    assert.equal((await get(id)).state, 'leased');
  });

  test('has lease_expired as its last error when its last failed attempt expired', async () => {
    const id = await addBody();
    await place.ready(id);
    await attempt(id, 1, { error: '{"message":"first"}' });
    await attempt(id, 2, { outcome: 'expired' });
    await attempt(id, 3, { outcome: 'released' });
    const { lastError } = await get(id);
    assert.deepEqual([lastError?.type, lastError?.attempt], ['lease_expired', 2]);
  });

  test('shows its latest 100 attempts, oldest first, and the acked one last', async () => {
    const id = await addBody();
    await parts.sql(
      `insert into stint.attempt (job_id, epoch, attempt, lease_id, started_at, ended_at, outcome)
       select $1, e, e, e, now(), now(), 'nacked' from generate_series(1, 120) e`,
      [id],
    );
    await place.finished(id, { epoch: 121, attempt: 121 });
    const { attempts = [] } = await get(id);
    assert.deepEqual([attempts.length, attempts[0]?.epoch, attempts.at(-2)?.epoch], [101, 21, 120]);
    assert.deepEqual(attempts.at(-1), {
      attempt: 121,
      epoch: 121,
      worker: 'w',
      startedAt: AT,
      endedAt: AT + 5,
      outcome: 'ACKED',
      error: undefined,
    });
  });

  test('shows no more attempts than 512 KiB of errors, the latest ones', async () => {
    const id = await addBody();
    await place.ready(id);
    const error = JSON.stringify({ message: 'x'.repeat(100_000) });
    for (let epoch = 1; epoch <= 8; epoch++) await attempt(id, epoch, { error });
    assert.deepEqual(
      (await get(id)).attempts?.map(({ epoch }) => epoch),
      [4, 5, 6, 7, 8],
    );
  });

  test('whose body is pruned keeps its state and the time in its id', async () => {
    const id = v7({ msecs: 1_700_000_000_000 });
    await place.finished(id);
    const job = await get(id);
    assert.deepEqual(
      [job.state, job.enqueuedAt, job.maxAttempts, job.runAt],
      ['completed', 1_700_000_000_000_000, undefined, undefined],
    );
  });

  test('that came from another queue’s dead letters says from where and why', async () => {
    const id = await addBody({ dead_from: 'old', dead_from_reason: 'final' });
    await place.ready(id);
    assert.deepEqual((await get(id)).deadFrom, { queue: 'old', reason: 'final' });
  });

  test('that is purged, or whose queue is closed, is not found', async () => {
    const other = await addQueue(tenant);
    const ids = [await addBody({ queue_id: other.queueId }), await addBody({ queue_id: other.queueId })];
    await place.ready(ids[0]!, { queue_id: other.queueId });
    await place.finished(ids[1]!, { queue_id: other.queueId });
    await parts.sql('update stint.queue set cut = (select last_value from stint.pos) where id = $1', [other.queueId]);
    await assert.rejects(get(ids[0]!), code('NOT_FOUND'));
    await assert.rejects(run(cancelJob, { id: ids[0] }), code('NOT_FOUND'));
    await assert.rejects(run(updateJob, { id: ids[0], priority: 1 }), code('NOT_FOUND'));
    assert.equal((await get(ids[1]!)).state, 'completed');
    await parts.sql('update stint.queue set closed_at = now() where id = $1', [other.queueId]);
    await assert.rejects(get(ids[1]!), code('NOT_FOUND'));
  });
});

test('C65: another tenant’s job is answered exactly as one that does not exist, and stays as it was', async () => {
  const stranger = parts.as(await addTenant(parts));
  const id = await addBody();
  await place.ready(id);
  const calls: [Operation<Engine>, Record<string, unknown>][] = [
    [getJob, {}],
    [getJob, { wait: 50 }],
    [updateJob, { priority: 1 }],
    [cancelJob, { force: true }],
  ];
  const answer = async (operation: Operation<Engine>, input: Record<string, unknown>) => {
    const error: unknown = await run(operation, input, stranger).then(
      () => undefined,
      (error: unknown) => error,
    );
    assert.ok(error instanceof ServiceError, String(error));
    return { code: error.code, message: error.message, fields: error.fields, extra: error.extra };
  };
  for (const [operation, input] of calls) {
    const refusal = await answer(operation, { ...input, id });
    assert.equal(refusal.code, 'NOT_FOUND');
    assert.deepEqual(refusal, await answer(operation, { ...input, id: v7() }));
  }
  assert.deepEqual(await answer(listJobs, { queue }), await answer(listJobs, { queue: 'no-such-queue' }));
  assert.equal((await get(id)).state, 'ready');
});

test('an id that is no UUID is refused and named', async () => {
  for (const operation of [getJob, updateJob, cancelJob]) {
    await assert.rejects(async () => run(operation, { id: 'x' }), code('INVALID_ARGUMENT', 'id'));
  }
});

describe('waiting for the end of a job', () => {
  test('takes no connection and ends with the job', async () => {
    const id = await addBody();
    await place.ready(id);
    const answer = run<Job>(getJob, { id: id.toUpperCase(), wait: 60_000 });
    await until(
      () =>
        parts.engine.endings.jobIds().includes(id) &&
        parts.connections.state().idle === parts.connections.state().total,
    );
    const calls = parts.calls();
    await run(cancelJob, { id });
    assert.equal((await answer).state, 'cancelled');
    assert.ok(parts.calls() > calls);
    assert.deepEqual(parts.engine.endings.jobIds(), []);
  });

  test('ends with the job when another instance ended it, or it is gone', async () => {
    const [ended, gone, waits] = await Promise.all([addBody(), addBody(), addBody()]);
    for (const id of [ended, gone, waits]) await place.lease(id);
    const stop = new Departure();
    const answers = [ended, gone].map((id) => run<Job>(getJob, { id, wait: 60_000 }));
    const other = run<Job>(getJob, { id: waits, wait: 60_000 }, parts.as(tenant, stop));
    const refused = assert.rejects(answers[1]!, code('NOT_FOUND'));
    // All of them wait, and have been looked at.
    await until(() => {
      const { idle, total, waiting } = parts.connections.state();
      return parts.engine.endings.jobIds().length === 3 && idle === total && waiting === 0;
    });
    assert.deepEqual(await watchEndings.run(parts.engine), { counts: { ended: 0 } });
    await parts.sql('delete from stint.lease where job_id = any($1)', [[ended, gone]]);
    await place.finished(ended);
    assert.deepEqual(await watchEndings.run(parts.engine), { counts: { ended: 2 } });
    assert.equal((await answers[0])?.state, 'completed');
    await refused;
    stop.tell();
    assert.equal((await other).state, 'leased');
  });

  test('costs no query while nobody waits', async () => {
    const calls = parts.calls();
    await watchEndings.run(parts.engine);
    assert.equal(parts.calls(), calls);
  });

  test('answers at once when it has ended, and with the state of the moment after the time', async () => {
    const [ended, waits] = await Promise.all([addBody(), addBody()]);
    await place.dead(ended);
    await place.scheduled(waits);
    assert.equal((await run<Job>(getJob, { id: ended, wait: 60_000 })).state, 'dead');
    assert.equal((await run<Job>(getJob, { id: waits, wait: 20 })).state, 'scheduled');
    assert.deepEqual(parts.engine.endings.jobIds(), []);
  });

  test('takes at most 60s', async () => {
    await assert.rejects(async () => run(getJob, { id: v7(), wait: 60_001 }), code('INVALID_ARGUMENT', 'wait'));
  });
});

describe('changing a waiting job', () => {
  const waiting = async (more = {}) => {
    ({ queueId, queue } = await addQueue(tenant));
    const id = await addBody(more);
    return id;
  };
  const now = () => Date.now() * 1000;

  test('a future runAt makes a ready job scheduled, a past one makes it ready again; what it carries goes along', async () => {
    const id = await waiting();
    await place.ready(id, { epoch: 4, attempt: 2, releases: 3, lease_id: 9, ended: 'nacked', size: 11 });
    const later = now() + DAY;
    const scheduled = await run<Job>(updateJob, { id, runAt: later });
    assert.deepEqual(
      [scheduled.state, scheduled.runAt, scheduled.attempt, scheduled.releases],
      ['scheduled', later, 2, 3],
    );
    assert.deepEqual(await counts(), { ready: -1, scheduled: 1, leased: 0 });
    assert.equal(parts.woken.scheduled.at(-1), later);
    const ready = await run<Job>(updateJob, { id, runAt: AT - 10 * 365 * DAY });
    assert.deepEqual([ready.state, ready.attempt], ['ready', 2]);
    assert.ok(Math.abs(ready.runAt! - now()) < 60_000_000);
    assert.equal(parts.woken.ready.at(-1), queueId);
    assert.deepEqual(await counts(), { ready: 0, scheduled: 0, leased: 0 });
    const [row] = await parts.sql('select epoch, lease_id::int, ended, size from stint.ready where job_id = $1', [id]);
    assert.deepEqual(row, { epoch: 4, lease_id: 9, ended: 'nacked', size: 11 });
  });

  test('a delay counts from now', async () => {
    const id = await waiting();
    await place.scheduled(id);
    const { runAt } = await run<Job>(updateJob, { id, delay: 3_600_000 });
    assert.ok(Math.abs(runAt! - now() - 3_600_000_000) < 60_000_000);
    assert.equal((await run<Job>(updateJob, { id, delay: 0 })).state, 'ready');
  });

  test('a priority alone leaves a job where it stands, at the tail of its new priority', async () => {
    const id = await waiting();
    await place.scheduled(id, { due_at: iso(AT + 30 * 365 * DAY) });
    const changed = await run<Job>(updateJob, { id, priority: -7 });
    assert.deepEqual([changed.state, changed.priority, changed.runAt], ['scheduled', -7, AT + 30 * 365 * DAY]);
    const ready = await addBody();
    await place.ready(ready);
    const [before] = await parts.sql('select pos from stint.ready where job_id = $1', [ready]);
    assert.equal((await run<Job>(updateJob, { id: ready, priority: 1000 })).priority, 1000);
    const [moved] = await parts.sql('select pos, rank from stint.ready where job_id = $1', [ready]);
    assert.ok(Number(moved.pos) > Number(before.pos));
    assert.equal(moved.rank, -1000);
    assert.deepEqual(await parts.sql('select priority from stint.job where id = $1', [ready]), [{ priority: 1000 }]);
    assert.deepEqual(await counts(), { ready: null, scheduled: null, leased: null });
  });

  test('leased and ended jobs are in conflict, and named by their state', async () => {
    const states = { leased: place.lease, dead: place.dead, completed: place.finished };
    for (const [state, put] of Object.entries(states)) {
      const id = await waiting();
      await put(id);
      await assert.rejects(run(updateJob, { id, priority: 1 }), (error: ServiceError) => {
        assert.match(error.message, new RegExp(state));
        return code('CONFLICT')(error);
      });
    }
  });

  test('a job is not moved past its expiry', async () => {
    const expires = now() + DAY;
    const id = await waiting({ expires_at: iso(expires) });
    await place.ready(id, { expires_at: iso(expires) });
    await assert.rejects(run(updateJob, { id, runAt: expires }), code('INVALID_ARGUMENT', 'runAt'));
    await assert.rejects(run(updateJob, { id, delay: 2 * 86_400_000 }), code('INVALID_ARGUMENT', 'delay'));
    assert.equal((await run<Job>(updateJob, { id, runAt: expires - 1 })).runAt, expires - 1);
  });

  test('something must change, and no farther ahead than 366 days', async () => {
    const id = v7();
    await assert.rejects(async () => run(updateJob, { id }), code('INVALID_ARGUMENT', 'body'));
    await assert.rejects(async () => run(updateJob, { id, runAt: 1, delay: 1 }), code('INVALID_ARGUMENT', 'runAt'));
    await assert.rejects(async () => run(updateJob, { id, priority: 1001 }), code('INVALID_ARGUMENT', 'priority'));
    await assert.rejects(
      async () => run(updateJob, { id, runAt: now() + 367 * DAY }),
      code('INVALID_ARGUMENT', 'runAt'),
    );
  });
});

describe('cancelling', () => {
  const only = async (id: string, table: string) => {
    const rows = await parts.sql(
      `select 'ready' as t from stint.ready where job_id = $1 union all select 'scheduled' from stint.scheduled where job_id = $1
       union all select 'lease' from stint.lease where job_id = $1 union all select 'dead' from stint.dead where job_id = $1
       union all select 'finished' from stint.finished where job_id = $1`,
      [id],
    );
    assert.deepEqual(rows, [{ t: table }]);
  };
  const fresh = async () => {
    ({ queueId, queue } = await addQueue(tenant));
    return addBody();
  };

  test('a scheduled or ready job is cancelled at once, and stays as it is when cancelled again', async () => {
    for (const where of ['ready', 'scheduled'] as const) {
      const id = await fresh();
      await place[where](id, { epoch: 2, lease_id: 5, ended: 'nacked', attempt: 1 });
      const job = await run<Job>(cancelJob, { id });
      assert.deepEqual([job.state, job.attempt, job.finishedAt !== undefined], ['cancelled', 1, true]);
      assert.deepEqual(await run<Job>(cancelJob, { id, force: true }), job);
      await only(id, 'finished');
      assert.equal((await counts())[where], -1);
      assert.deepEqual(
        await parts.sql('select ended, epoch, lease_id::int from stint.finished where job_id = $1', [id]),
        [{ ended: 'nacked', epoch: 2, lease_id: 5 }],
      );
    }
  });

  test('a leased job is marked, and goes on', async () => {
    const id = await fresh();
    await place.lease(id);
    for (let times = 0; times < 2; times++) {
      const job = await run<Job>(cancelJob, { id });
      assert.deepEqual([job.state, job.cancelRequested], ['leased', true]);
    }
    await only(id, 'lease');
  });

  test('a leased job is cancelled at once by force, and its attempt is kept as cancelled', async () => {
    const id = await fresh();
    await place.lease(id);
    const job = await run<Job>(cancelJob, { id, force: true });
    assert.equal(job.state, 'cancelled');
    assert.deepEqual(
      job.attempts?.map(({ epoch, outcome, worker, startedAt }) => ({ epoch, outcome, worker, startedAt })),
      [{ epoch: 1, outcome: 'CANCELLED', worker: 'w', startedAt: AT }],
    );
    await only(id, 'finished');
    assert.equal((await counts()).leased, -1);
  });

  test('a job whose lease has run out is cancelled at once', async () => {
    const id = await fresh();
    await place.lease(id, { lease_expires_at: iso(1_000_000) });
    const job = await run<Job>(cancelJob, { id });
    assert.deepEqual(
      [job.state, job.attempts?.[0]?.outcome, job.lastError?.type],
      ['cancelled', 'EXPIRED', 'lease_expired'],
    );
    await only(id, 'finished');
  });

  test('a completed or dead job is in conflict', async () => {
    for (const where of ['finished', 'dead'] as const) {
      const id = await fresh();
      await place[where](id);
      await assert.rejects(run(cancelJob, { id, force: true }), code('CONFLICT'));
      await only(id, where);
    }
  });

  test('a job that is just on its way to another table is cancelled there', async () => {
    const id = await fresh();
    await place.scheduled(id);
    let answer: Promise<Job> | undefined;
    await parts.connections.transaction(async (connection) => {
      const move = `with gone as (delete from scheduled where job_id = '${id}' returning *)
        insert into ready (queue_id, rank, job_id, ready_at, epoch, attempt, releases, size, ended)
        select queue_id, rank, job_id, now(), epoch, attempt, releases, size, ended from gone`;
      await connection.query({ name: 'test-move', text: move });
      answer = run<Job>(cancelJob, { id });
      await until(
        async () =>
          (
            await parts.sql(
              `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
            )
          ).length > 0,
      );
    });
    assert.equal((await answer)?.state, 'cancelled');
    await only(id, 'finished');
  });
});

describe('listing', () => {
  test('goes through the states in turn, each in its own order, whatever the page size', async () => {
    ({ queueId, queue } = await addQueue(tenant));
    const expected: string[] = [];
    const add = async (put: (id: string, more: object) => Promise<void>, more: object) => {
      const id = await addBody();
      await put(id, more);
      expected.push(id);
    };
    for (const at of [1, 1, 2]) await add(place.scheduled, { due_at: iso(AT + at) });
    for (const rank of [-5, 0, 0, 7]) await add(place.ready, { rank });
    for (let times = 0; times < 3; times++) await add(place.lease, {});
    for (const at of [1, 1, 3]) await add(place.dead, { ended_at: iso(AT + at) });
    for (const at of [1, 2, 2])
      await add(place.finished, { ended_at: iso(AT + at), state: at === 1 ? 'cancelled' : 'completed' });
    for (const limit of [1, 2, 3, 7, 16, 1000]) {
      const { ids, pages } = await allPages({ limit });
      assert.deepEqual(ids, expected);
      assert.equal(pages, Math.ceil(16 / limit));
    }
    const states = {
      scheduled: [0, 3],
      ready: [3, 7],
      leased: [7, 10],
      dead: [10, 13],
      cancelled: [13, 14],
      completed: [14, 16],
    };
    for (const [state, [start, end]] of Object.entries(states)) {
      assert.deepEqual((await allPages({ state, limit: 2 })).ids, expected.slice(start, end));
    }
  });

  test('is not disturbed by jobs that come in between pages', async () => {
    ({ queueId, queue } = await addQueue(tenant));
    const ids = [];
    for (let index = 0; index < 4; index++) ids.push(await addBody());
    for (const id of ids.slice(0, 3)) await place.ready(id);
    const first = await list({ limit: 2, state: 'ready' });
    await place.ready(ids[3]!);
    const second = await list({ limit: 2, state: 'ready', cursor: first.nextCursor });
    assert.deepEqual(
      [...first.jobs, ...second.jobs].map(({ id }) => id),
      ids,
    );
  });

  test('leaves out payload, result and attempts unless they are asked for', async () => {
    ({ queueId, queue } = await addQueue(tenant));
    const id = await addBody({ payload: Buffer.from('1') });
    await place.finished(id, { result: Buffer.from('2') });
    const shown = async (include?: string[]) => {
      const { payload, result, attempts } = (await list({ include })).jobs[0]!;
      return [payload, result, attempts?.length];
    };
    assert.deepEqual(await shown(), [undefined, undefined, undefined]);
    assert.deepEqual(await shown(['payload', 'result', 'attempts']), ['1', '2', 1]);
    assert.deepEqual(await shown(['result']), [undefined, '2', undefined]);
  });

  test('filters by kind, by when a job was enqueued, and by idempotency key', async () => {
    ({ queueId, queue } = await addQueue(tenant));
    const a = await addBody({ kind: 'a', created_at: iso(AT) });
    const b = await addBody({ kind: 'b', created_at: iso(AT + 1), idempotency_key: 'k' });
    const pruned = v7({ msecs: Math.floor(AT / 1000) - 1 });
    await place.ready(a);
    await place.ready(b);
    await place.finished(pruned);
    await insert('idempotency', {
      queue_id: queueId,
      key: 'k',
      job_id: b,
      fingerprint: Buffer.alloc(16),
      expires_at: iso(AT),
    });
    const ids = async (filter: Record<string, unknown>) => (await list(filter)).jobs.map(({ id }) => id);
    assert.deepEqual(await ids({ kind: 'b' }), [b]);
    assert.deepEqual(await ids({ olderThan: AT + 1 }), [a, pruned]);
    assert.deepEqual(await ids({ newerThan: AT }), [b]);
    assert.deepEqual(await ids({ idempotencyKey: 'k' }), [b]);
    assert.deepEqual(await ids({ idempotencyKey: 'k', kind: 'a' }), []);
    assert.deepEqual(await ids({ idempotencyKey: 'other' }), []);
  });

  test('looks at 10,000 jobs a page at most, and goes on from there', async () => {
    ({ queueId, queue } = await addQueue(tenant));
    await parts.sql(
      `with j as (
         insert into stint.job (id, queue_id, kind, is_json, priority, run_at, created_at)
         select gen_random_uuid(), $1, case when n = 10002 then 'rare' else 'common' end, true, 0, now(), now()
         from generate_series(1, 10005) n returning id, kind)
       insert into stint.ready (queue_id, rank, job_id, ready_at, epoch, attempt, releases, size, ended)
       select $1, 0, id, now(), 0, 0, 0, 0, 'none' from j order by kind`,
      [queueId],
    );
    const first = await list({ kind: 'rare' });
    assert.deepEqual([first.jobs.length, first.nextCursor !== undefined], [0, true]);
    const second = await list({ kind: 'rare', cursor: first.nextCursor });
    assert.deepEqual([second.jobs.length, second.nextCursor], [1, undefined]);
    const { ids, pages } = await allPages({ limit: 1000 });
    assert.deepEqual([new Set(ids).size, pages], [10_005, 11]);
  });

  test('ends a page at 3 MiB, with one job at least', async () => {
    ({ queueId, queue } = await addQueue(tenant));
    const ids = [];
    for (const size of [2_000_000, 900_000, 900_000, 2_000_000]) {
      const id = await addBody({ payload: Buffer.from(`"${'x'.repeat(size)}"`) });
      await place.ready(id);
      ids.push(id);
    }
    const first = await list({ include: ['payload'] });
    assert.deepEqual(
      first.jobs.map(({ id }) => id),
      ids.slice(0, 2),
    );
    assert.deepEqual(await allPages({ include: ['payload'] }), { ids, pages: 2 });
    assert.deepEqual(await allPages({}), { ids, pages: 1 });
  });

  test('shows nothing of other queues, nor what is purged', async () => {
    const { queueId: other } = await addQueue(tenant);
    ({ queueId, queue } = await addQueue(tenant));
    const [foreign, purged, scheduled, own] = await Promise.all([
      addBody({ queue_id: other }),
      addBody(),
      addBody(),
      addBody(),
    ]);
    await place.lease(foreign, { queue_id: other });
    await place.ready(purged);
    await place.scheduled(scheduled);
    await parts.sql('update stint.queue set cut = (select last_value from stint.pos) where id = $1', [queueId]);
    await place.ready(own);
    assert.deepEqual(await allPages({ limit: 1 }), { ids: [own], pages: 1 });
  });

  test('refuses a cursor that no list has given', async () => {
    const cursors = [
      ['ready', 1],
      ['ready', 0, 'x'],
      ['ready', 99_999, 1],
      ['dead', 0, 'x'],
      ['nowhere', 0, 0],
    ];
    for (const cursor of cursors) {
      const text = Buffer.from(JSON.stringify(cursor)).toString('base64url');
      await assert.rejects(list({ cursor: text }), code('INVALID_ARGUMENT', 'cursor'));
    }
  });

  test('has a route of its own for dead letters', () => {
    assert.deepEqual(
      listJobs.http.map(({ path, fixed, operationId }) => ({ path, fixed, operationId })),
      [
        { path: '/v1/queues/:queue/jobs', fixed: undefined, operationId: undefined },
        { path: '/v1/queues/:queue/dead', fixed: { state: 'dead' }, operationId: 'ListDead' },
      ],
    );
  });
});
