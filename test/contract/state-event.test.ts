import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Answer, type Client, startTestService, type TestService, until } from '../helpers/service.js';
import { enqueue, get, leased, leaseOne, makeDue, putQueue, runOut, settle, settleOk, type Verb } from './jobs.js';

/*
 * The table "state × event" of the contract. A row builds a job in a state; a cell is an event with the token of the lease
 * that is or was the last ("cur") or of an earlier one ("old"), what it answers and the state it leaves. Cells of one
 * state run beside each other, each on a queue of its own.
 */

let service: TestService;
let client: Client;
let queues = 0;
let retention: Awaited<ReturnType<typeof pastRetention>>;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
  // What is past its retention is pruned every 15 s, meanwhile.
  retention = await pastRetention();
});
after(() => service.stop());

interface Lease {
  readonly id: string;
  readonly leaseToken: string;
}

/** A job brought into a state: its leases, the last one at the end. */
interface Built {
  readonly id: string;
  readonly queue: string;
  readonly leases: readonly Lease[];
}

const POSTPONED = { delay: '1h' };
const NOW = { delay: '0s' };

async function fresh(fields: object = {}): Promise<Built> {
  const queue = `q-${(queues += 1)}`;
  return { id: await enqueue(client, queue, { maxAttempts: 100, ...fields }), queue, leases: [] };
}

/** Leases the job for the n-th time. */
async function take(built: Built): Promise<Built> {
  const lease = await leaseOne(client, built.queue);
  assert.equal(lease.id, built.id);
  return { ...built, leases: [...built.leases, lease] };
}

/** A job that is leased, with an old lease that ended so; undefined: by running out. */
async function held(old: 'nack' | 'release' | undefined, fields: object = {}): Promise<Built> {
  const first = await take(await fresh(fields));
  await end(first, old, NOW);
  return take(first);
}

async function end({ id, leases }: Built, how: Verb | undefined, more: object = {}): Promise<void> {
  if (how !== undefined) {
    await settleOk(client, how, leases.at(-1)!, more);
    return;
  }
  await runOut(service, [id]);
  await until('the lease to be ended', async () => (await get(client, id)).state !== 'leased');
}

async function stateOf(id: string): Promise<string> {
  const answer = await client.get(`/v1/jobs/${id}`);
  return answer.status === 404 ? 'gone' : (answer.body.state as string);
}

const VERBS: readonly Verb[] = ['ack', 'nack', 'release', 'heartbeat'];
type Event = `${Verb} ${'cur' | 'old'}` | 'cancel' | 'patch' | 'pause' | 'purge' | 'redrive';

/** What an event answers, with `settledAs` behind a blank, and the state it leaves the job in. */
type Cell = readonly [answer: string, state: string];

async function send(event: Event, { id, queue, leases }: Built): Promise<string> {
  const [verb, which] = event.split(' ') as [string, string | undefined];
  if (which !== undefined) return outcomeOf(await settle(client, verb as Verb, leases.at(which === 'cur' ? -1 : -2)!));
  switch (verb) {
    case 'cancel':
      return String((await client.post(`/v1/jobs/${id}/cancel`)).status);
    case 'patch':
      return String((await client.patch(`/v1/jobs/${id}`, { priority: 7 })).status);
    case 'redrive': {
      const { body } = await client.post(`/v1/queues/${queue}/dead/redrive`, {});
      return `redriven ${body.redriven}`;
    }
    default:
      return String((await client.post(`/v1/queues/${queue}/${verb}`)).status);
  }
}

function outcomeOf({ status, body }: Answer): string {
  if (status === 200) return body.outcome as string;
  assert.ok(status === 409 || status === 404, `status ${status}`);
  return body.settledAs === undefined ? (body.code as string) : `${body.code} ${body.settledAs}`;
}

interface Row {
  readonly state: string;
  readonly build: () => Promise<Built>;
  readonly cells: Partial<Record<Event, Cell>>;
}

/** The answers to the four verbs with one token. */
function verbs(which: 'cur' | 'old', state: string, answers: readonly [string, string, string, string]): Row['cells'] {
  return Object.fromEntries(VERBS.map((verb, index) => [`${verb} ${which}`, [answers[index]!, state]]));
}

const lost = (settledAs: string): string => `LEASE_LOST ${settledAs.toUpperCase()}`;
const LOST = 'LEASE_LOST';
const AGAIN = 'ALREADY_SETTLED';

const WAITING = { cancel: ['200', 'cancelled'], purge: ['202', 'gone'], redrive: ['redriven 0', 'same'] } as const;
const FINAL = { patch: ['409', 'same'], purge: ['202', 'same'], pause: ['200', 'same'] } as const;
const OLD_NACKED = [lost('nacked'), AGAIN, lost('nacked'), lost('nacked')] as const;

const rows: readonly Row[] = [
  {
    state: 'ready, never leased',
    build: () => fresh(),
    cells: { ...WAITING, patch: ['200', 'ready'], pause: ['200', 'ready'] },
  },
  {
    state: 'scheduled, never leased',
    build: () => fresh(POSTPONED),
    cells: { ...WAITING, patch: ['200', 'scheduled'], pause: ['200', 'scheduled'] },
  },
  {
    state: 'scheduled after a nack',
    build: async () => {
      const built = await held('nack');
      await end(built, 'nack', POSTPONED);
      return built;
    },
    cells: {
      ...verbs('cur', 'scheduled', [lost('nacked'), AGAIN, lost('nacked'), lost('nacked')]),
      ...verbs('old', 'scheduled', OLD_NACKED),
      ...WAITING,
      patch: ['200', 'scheduled'],
      pause: ['200', 'scheduled'],
    },
  },
  {
    state: 'scheduled after a release',
    build: async () => {
      const built = await held('release');
      await end(built, 'release', POSTPONED);
      return built;
    },
    cells: {
      ...verbs('cur', 'scheduled', [lost('released'), lost('released'), AGAIN, lost('released')]),
      ...verbs('old', 'scheduled', [lost('released'), lost('released'), lost('released'), lost('released')]),
      ...WAITING,
      patch: ['200', 'scheduled'],
    },
  },
  {
    state: 'ready after a nack',
    build: async () => {
      const built = await held(undefined);
      await end(built, 'nack', NOW);
      return built;
    },
    cells: {
      ...verbs('cur', 'ready', [lost('nacked'), AGAIN, lost('nacked'), lost('nacked')]),
      ...verbs('old', 'ready', [lost('expired'), lost('expired'), lost('expired'), lost('expired')]),
      ...WAITING,
      patch: ['200', 'ready'],
    },
  },
  {
    state: 'ready after a nack that was postponed and is due',
    build: async () => {
      const built = await held('nack');
      await end(built, 'nack', POSTPONED);
      await makeDue(service, [built.id]);
      await until('it to be ready', async () => (await stateOf(built.id)) === 'ready');
      return built;
    },
    cells: verbs('cur', 'ready', [lost('nacked'), AGAIN, lost('nacked'), lost('nacked')]),
  },
  {
    state: 'ready after a release',
    build: async () => {
      const built = await held('nack');
      await end(built, 'release');
      return built;
    },
    cells: {
      ...verbs('cur', 'ready', [lost('released'), lost('released'), AGAIN, lost('released')]),
      ...verbs('old', 'ready', OLD_NACKED),
      ...WAITING,
      patch: ['200', 'ready'],
    },
  },
  {
    state: 'ready after its lease ran out',
    build: async () => {
      const built = await held('nack');
      await end(built, undefined);
      return built;
    },
    cells: {
      ...verbs('cur', 'ready', ['OK', lost('expired'), lost('expired'), lost('expired')]),
      'ack cur': ['OK', 'completed'],
      ...verbs('old', 'ready', OLD_NACKED),
      ...WAITING,
      patch: ['200', 'ready'],
    },
  },
  {
    state: 'scheduled (by a patch) after its lease ran out',
    build: async () => {
      const built = await held('nack');
      await end(built, undefined);
      assert.equal((await client.patch(`/v1/jobs/${built.id}`, POSTPONED)).status, 200);
      return built;
    },
    cells: {
      'ack cur': ['OK', 'completed'],
      'nack cur': [lost('expired'), 'scheduled'],
      'heartbeat cur': [lost('expired'), 'scheduled'],
    },
  },
  {
    state: 'leased',
    build: () => held('nack'),
    cells: {
      'ack cur': ['OK', 'completed'],
      'nack cur': ['OK', 'scheduled'],
      'release cur': ['OK', 'ready'],
      'heartbeat cur': ['OK', 'leased'],
      ...verbs('old', 'leased', OLD_NACKED),
      cancel: ['200', 'leased'],
      patch: ['409', 'leased'],
      pause: ['200', 'leased'],
      purge: ['202', 'leased'],
      redrive: ['redriven 0', 'leased'],
    },
  },
  {
    state: 'leased, after a release and after a lease that ran out',
    build: () => held('release'),
    cells: verbs('old', 'leased', [lost('released'), lost('released'), lost('released'), lost('released')]),
  },
  {
    state: 'leased, after a lease that ran out',
    build: () => held(undefined),
    cells: verbs('old', 'leased', [lost('expired'), lost('expired'), lost('expired'), lost('expired')]),
  },
  {
    state: 'completed',
    build: async () => {
      const built = await held('nack');
      await end(built, 'ack');
      return built;
    },
    cells: {
      ...verbs('cur', 'completed', [AGAIN, lost('acked'), lost('acked'), lost('acked')]),
      ...verbs('old', 'completed', OLD_NACKED),
      cancel: ['409', 'completed'],
      ...FINAL,
      redrive: ['redriven 0', 'completed'],
    },
  },
  {
    state: 'dead by a final nack',
    build: async () => {
      const built = await held('nack');
      await end(built, 'nack', { final: true });
      return built;
    },
    cells: {
      ...verbs('cur', 'dead', [lost('nacked'), AGAIN, lost('nacked'), lost('nacked')]),
      ...verbs('old', 'dead', OLD_NACKED),
      cancel: ['409', 'dead'],
      ...FINAL,
      redrive: ['redriven 1', 'ready'],
    },
  },
  {
    state: 'dead by its last nack',
    build: async () => {
      const built = await held('nack', { maxAttempts: 2 });
      await end(built, 'nack');
      return built;
    },
    cells: {
      'ack cur': [lost('nacked'), 'dead'],
      'nack cur': [AGAIN, 'dead'],
      'release cur': [lost('nacked'), 'dead'],
      'heartbeat cur': [lost('nacked'), 'dead'],
      redrive: ['redriven 1', 'ready'],
    },
  },
  {
    state: 'dead by the end of its last lease',
    build: async () => {
      const built = await held('nack', { maxAttempts: 2 });
      await end(built, undefined);
      assert.equal(await stateOf(built.id), 'dead');
      return built;
    },
    cells: {
      ...verbs('cur', 'dead', ['OK', lost('expired'), lost('expired'), lost('expired')]),
      'ack cur': ['OK', 'completed'],
      ...verbs('old', 'dead', OLD_NACKED),
      cancel: ['409', 'dead'],
      ...FINAL,
      redrive: ['redriven 1', 'ready'],
    },
  },
  {
    state: 'dead, redriven',
    build: async () => {
      const built = await held('nack', { maxAttempts: 2 });
      await end(built, 'nack');
      assert.equal(await send('redrive', built), 'redriven 1');
      return built;
    },
    cells: {
      ...verbs('cur', 'ready', [lost('nacked'), AGAIN, lost('nacked'), lost('nacked')]),
      ...WAITING,
      patch: ['200', 'ready'],
    },
  },
  {
    state: 'cancelled by force',
    build: async () => {
      const built = await held('nack');
      assert.equal((await client.post(`/v1/jobs/${built.id}/cancel`, { force: true })).status, 200);
      return built;
    },
    cells: {
      ...verbs('cur', 'cancelled', [lost('cancelled'), lost('cancelled'), lost('cancelled'), lost('cancelled')]),
      ...verbs('old', 'cancelled', OLD_NACKED),
      cancel: ['200', 'cancelled'],
      ...FINAL,
      redrive: ['redriven 0', 'cancelled'],
    },
  },
  {
    state: 'cancelled while it waited after its lease ran out',
    build: async () => {
      const built = await held('nack');
      await end(built, undefined);
      assert.equal(await send('cancel', built), '200');
      return built;
    },
    cells: {
      ...verbs('cur', 'cancelled', [lost('expired'), lost('expired'), lost('expired'), lost('expired')]),
      cancel: ['200', 'cancelled'],
    },
  },
];

for (const { state, build, cells } of rows) {
  describe(`a job that is ${state}`, { concurrency: true }, () => {
    for (const [event, [answer, after]] of Object.entries(cells) as [Event, Cell][]) {
      test(`${event}: ${answer}, then ${after}`, async () => {
        const built = await build();
        const before = await stateOf(built.id);
        assert.equal(await send(event, built), answer);
        assert.equal(await stateOf(built.id), after === 'same' ? before : after);
      });
    }
  });
}

/*
 * The reaper looks every half second. These cells follow right after one of its turns: a lease let run out beforehand tells
 * when that was. Where it came first nevertheless, which the history shows, the cell is built anew.
 */
const UNNOTICED: Partial<Record<Event, Cell>> = {
  'ack cur': ['OK', 'completed'],
  'nack cur': [LOST, 'leased'],
  'release cur': [LOST, 'leased'],
  'heartbeat cur': [LOST, 'leased'],
  ...verbs('old', 'leased', OLD_NACKED),
  cancel: ['200', 'cancelled'],
  patch: ['409', 'leased'],
  purge: ['202', 'leased'],
  redrive: ['redriven 0', 'leased'],
};
const TRIES = 5;

async function wasNoticed({ id, leases }: Built): Promise<boolean> {
  const [row] = await service.sql(
    `select exists (select from stint.lease where job_id = $1) as leased,
       exists (select from stint.attempt where job_id = $1 and epoch = $2 and outcome = 'expired') as expired`,
    [id, leases.length],
  );
  return row.expired === true && row.leased === false;
}

describe('a job whose lease has run out, unnoticed', { concurrency: true }, () => {
  for (const [event, [answer, after]] of Object.entries(UNNOTICED) as [Event, Cell][]) {
    test(`${event}: ${answer}, then ${after}`, async () => {
      for (let tries = 1; ; tries += 1) {
        const built = await held('nack');
        const canary = await take(await fresh());
        await end(canary, undefined);
        await runOut(service, [built.id]);
        const answered = await send(event, built);
        const state = await service.sql('select state from stint.job_state where job_id = $1', [built.id]);
        const endsIt = event === 'ack cur' || event === 'cancel';
        if (!endsIt && tries < TRIES && (await wasNoticed(built))) continue;
        assert.equal(answered, answer);
        assert.equal(state[0].state, after);
        return;
      }
    });
  }

  test('its end is noticed: the attempt is spent and it is ready', async () => {
    const built = await held('nack');
    await end(built, undefined);
    const job = await get(client, built.id);
    assert.deepEqual([job.state, job.attempt, job.attempts.at(-1).outcome], ['ready', 2, 'EXPIRED']);
  });

  test('in a paused queue it returns to ready and waits', async () => {
    const built = await held('nack');
    await send('pause', built);
    await end(built, undefined);
    assert.equal(await stateOf(built.id), 'ready');
    assert.deepEqual((await client.post(`/v1/queues/${built.queue}/lease`, { wait: '300ms' })).body.jobs, []);
  });
});

describe('a job in a paused queue', { concurrency: true }, () => {
  test('is settled and extended as ever while it is leased', async () => {
    for (const [verb, state] of [
      ['ack', 'completed'],
      ['nack', 'scheduled'],
      ['release', 'ready'],
      ['heartbeat', 'leased'],
    ] as const) {
      const built = await held('nack');
      await send('pause', built);
      assert.equal(await send(`${verb} cur`, built), 'OK');
      assert.equal(await stateOf(built.id), state);
    }
  });

  test('may be redriven when it is dead, and waits', async () => {
    const built = await held('nack');
    await end(built, 'nack', { final: true });
    await send('pause', built);
    assert.equal(await send('redrive', built), 'redriven 1');
    assert.deepEqual((await client.post(`/v1/queues/${built.queue}/lease`)).body.jobs, []);
    await client.post(`/v1/queues/${built.queue}/resume`);
    const again = await leaseOne(client, built.queue);
    assert.deepEqual([again.id, again.attempt, again.leaseEpoch], [built.id, 1, 3]);
  });
});

describe('a job that was asked to stop', { concurrency: true }, () => {
  const cells: Partial<Record<Event, Cell>> = {
    'ack cur': ['OK', 'completed'],
    'nack cur': ['OK', 'cancelled'],
    'release cur': ['OK', 'cancelled'],
    'heartbeat cur': ['OK', 'leased'],
    ...verbs('old', 'leased', OLD_NACKED),
    cancel: ['200', 'leased'],
  };
  for (const [event, [answer, after]] of Object.entries(cells) as [Event, Cell][]) {
    test(`${event}: ${answer}, then ${after}`, async () => {
      const built = await held('nack');
      assert.equal(await send('cancel', built), '200');
      assert.equal(await send(event, built), answer);
      assert.equal(await stateOf(built.id), after);
    });
  }

  test('the end of its lease makes it cancelled, and a late ack is LEASE_LOST', async () => {
    const built = await held('nack');
    await send('cancel', built);
    await end(built, undefined);
    assert.equal(await stateOf(built.id), 'cancelled');
    assert.equal(await send('ack cur', built), lost('expired'));
  });
});

test('a job of a queue that is deleted by force is NOT_FOUND to its holder', async () => {
  const job = await leased(client, 'deleted');
  assert.ok((await client.delete('/v1/queues/deleted?force=true')).status < 300);
  for (const verb of VERBS) assert.equal(outcomeOf(await settle(client, verb, job)), 'NOT_FOUND');
  await putQueue(client, 'deleted');
  for (const verb of VERBS) assert.equal(outcomeOf(await settle(client, verb, job)), 'NOT_FOUND');
});

/** Jobs past their queues' retention, and unfinished ones in queues that keep nothing. */
async function pastRetention(): Promise<{ readonly gone: readonly Built[]; readonly kept: readonly Built[] }> {
  const gone = [await held('nack'), await held('nack'), await held('nack')];
  for (const { queue } of gone) await putQueue(client, queue, { retainCompleted: '1h', retainDead: '1h' });
  await end(gone[0]!, 'ack');
  await end(gone[1]!, 'nack', { final: true });
  await client.post(`/v1/jobs/${gone[2]!.id}/cancel`, { force: true });
  for (const table of ['finished', 'dead']) {
    await service.sql(
      `update stint.${table} set ended_at = ended_at - interval '1 day' where job_id = any($1::uuid[])`,
      [gone.map(({ id }) => id)],
    );
  }
  const kept = [await fresh(), await fresh(POSTPONED), await held('nack')];
  for (const { queue } of kept) await putQueue(client, queue, { retainCompleted: '0s', retainDead: '0s' });
  return { gone, kept };
}

test('a completed, dead or cancelled job past retention is NOT_FOUND; others never are', async () => {
  for (const built of retention.gone) {
    await until('it to be gone', async () => (await stateOf(built.id)) === 'gone', 30_000);
    for (const verb of VERBS) {
      const forgotten = async () => (await send(`${verb} cur`, built)) === 'NOT_FOUND';
      await until('its outcomes to be forgotten', forgotten, 30_000);
    }
  }
  for (const { id } of retention.kept) assert.notEqual(await stateOf(id), 'gone');
});
