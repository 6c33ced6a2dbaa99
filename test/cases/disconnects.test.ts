import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';
import { enqueue, get, lease, leaseOne, putQueue, settleOk } from '../contract/jobs.js';

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

interface Poll {
  readonly socket: Socket;
  /** What has arrived. */
  text: string;
}

/** A lease over a connection of its own, which the test may cut. */
async function openPoll(queue: string, body: object): Promise<Poll> {
  const { hostname, port } = new URL(service.base);
  const socket = connect(Number(port), hostname);
  const poll: Poll = { socket, text: '' };
  socket.on('data', (chunk) => (poll.text += chunk.toString()));
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  const json = JSON.stringify(body);
  socket.write(
    `POST /v1/queues/${queue}/lease HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${client.key}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${json.length}\r\n\r\n${json}`,
  );
  return poll;
}

/** Full turns of the service's event loop, so that it has read what was sent, and heard what was closed, before. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) assert.equal((await client.get('/livez')).status, 200);
}

async function metric(name: RegExp): Promise<number> {
  const text = await (await fetch(`${service.base}/metrics`)).text();
  return Number(name.exec(text)?.[1] ?? 0);
}

const closed = () => metric(/^stint_operations_total\{operation="Lease",[^}]*code="CLIENT_CLOSED"\} (\d+)/m);
const returned = () => metric(/^stint_deliveries_returned_total (\d+)/m);

test('C17: of 20 long polls half are reset: the closed ones get nothing, every job is there for the others', async () => {
  await putQueue(client, 'c17');
  const polls = await Promise.all(
    Array.from({ length: 20 }, () => openPoll('c17', { wait: '30s', visibilityTimeout: '10m' })),
  );
  await turns();
  for (const [index, { socket }] of polls.entries()) {
    if (index % 4 === 0) socket.resetAndDestroy();
    else if (index % 4 === 1) socket.destroy();
  }
  await until('the closed ones to be gone', async () => (await closed()) === 10);
  await client.post('/v1/jobs/batch', { jobs: Array.from({ length: 20 }, () => ({ queue: 'c17' })) });
  const alive = polls.filter((_, index) => index % 4 > 1);
  await until('the others to be answered', () => alive.every(({ text }) => text.includes('"leaseToken"')));
  const rest = await lease(client, 'c17', { maxJobs: 100 });
  assert.equal(rest.length, 10);
  assert.ok(rest.every(({ attempt, leaseEpoch }) => attempt === 1 && leaseEpoch === 1));
  for (const { socket } of alive) socket.destroy();
});

test('C17: a client that goes while its claim is under way: the job goes straight back, no attempt spent, its epoch kept', async () => {
  for (const [index, leave] of (['resetAndDestroy', 'destroy', 'end'] as const).entries()) {
    const queue = `c17-${leave}`;
    const first = await enqueue(client, queue);
    const second = await enqueue(client, queue);
    const blocker = new pg.Client({ connectionString: service.database.url });
    await blocker.connect();
    // Readers go on; whoever is to write a lease waits here.
    await blocker.query('begin; lock table stint.lease in share mode');
    const poll = await openPoll(queue, { wait: '30s', visibilityTimeout: '12h' });
    await until('the claim to be under way', async () => {
      const rows = await service.sql(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%picked as materialized%'`,
      );
      return rows.length > 0;
    });
    poll.socket[leave]();
    await turns();
    await blocker.query('rollback');
    await blocker.end();
    // Until its claim has gone through it is ready as well.
    await until('it to be taken back', async () => (await returned()) === index + 1);
    await until('it to be back', async () => (await get(client, first)).state === 'ready');
    const job = await get(client, first);
    assert.deepEqual([job.attempt, job.releases, job.attempts], [0, 0, []], leave);
    assert.equal((await leaseOne(client, queue)).id, second, 'it went to the tail');
    const again = await leaseOne(client, queue);
    assert.deepEqual([again.id, again.attempt, again.leaseEpoch], [first, 1, 2]);
    await settleOk(client, 'ack', again);
    poll.socket.destroy();
  }
});

test('C17: when polls are cut at the instant of an enqueue, no job is lost for longer than its lease', async () => {
  const queue = 'c17-instant';
  await putQueue(client, queue, { visibilityTimeout: '1s' });
  const ids: string[] = [];
  for (let round = 0; round < 15; round += 1) {
    const poll = await openPoll(queue, { wait: '30s' });
    const made = enqueue(client, queue);
    if (round % 2 === 0) await new Promise((resolve) => setImmediate(resolve));
    poll.socket.resetAndDestroy();
    ids.push(await made);
  }
  const got = new Set<string>();
  await until('all of them', async () => {
    for (const job of await lease(client, queue, { maxJobs: 50, wait: '200ms', visibilityTimeout: '1m' }))
      got.add(job.id);
    return got.size === ids.length;
  });
  assert.deepEqual([...got].sort(), [...ids].sort());
});
