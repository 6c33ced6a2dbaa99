import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import { isAdministrative } from '../../src/audit/is-administrative.js';
import { encodeCursor } from '../../src/core/page.js';
import { createLog } from '../../src/observability/log.js';
import { operations } from '../../src/operations.js';
import { type Answer, startTestService, type TestService, until } from '../helpers/service.js';
import { type Act, ACTS, done, newWorld, secrets, type World } from './acts.js';

const administrative = operations.filter(isAdministrative);
const lines: string[] = [];
let service: TestService;

before(async () => {
  service = await startTestService({}, createLog('info', { write: (line: string) => void lines.push(line) }));
});
after(() => service.stop());

test('every administrative operation has its entry here, and nothing else', () => {
  assert.deepEqual(administrative.map(({ name }) => name).toSorted(), Object.keys(ACTS).toSorted());
});

test('work on one job, reading and what workers do is not administrative', () => {
  for (const name of ['UpdateJob', 'CancelJob', 'ListQueues', 'Enqueue', 'Ack', 'ListApiKeys', 'ListAuditEvents']) {
    assert.equal(isAdministrative(operations.find((each) => each.name === name)!), false, name);
  }
});

async function lastId(): Promise<string> {
  const [row] = await service.sql('select id from stint.audit_event order by id desc limit 1');
  return row.id;
}

/** What was recorded of this tenant, or of none, after that event. */
async function eventsAfter(id: string, world: World): Promise<any[]> {
  const { body } = await done(world.admin.get(`/v1/admin/audit?limit=1000&cursor=${encodeCursor([id])}`));
  return body.events;
}

for (const { name, scopes } of administrative) {
  const entry: Act | undefined = ACTS[name];
  if (entry === undefined) continue;
  const byAdmin = scopes.includes('admin');

  describe(name, () => {
    test('leaves one event that says who did what to what, when and from where, and one line in the log', async () => {
      const world = await newWorld(service);
      await entry.prepare?.(world);
      const last = await lastId();
      const asked = Date.now();
      const answer = await done(entry.act(world));
      const [event, ...more] = await eventsAfter(last, world);
      assert.deepEqual(more, []);
      const { id, at, tenant, before: was, after: became, ...rest } = event;
      assert.deepEqual(rest, {
        action: name,
        target: entry.target(world),
        refused: false,
        actor: byAdmin ? { kind: 'root', id: 'root', name: 'root' } : { kind: 'key', id: world.keyId, name: 'all' },
        requestId: answer.headers.get('x-request-id'),
        address: '127.0.0.1',
      });
      assert.match(id, /^[0-9a-f-]{14}7[0-9a-f]{3}-[89ab]/);
      assert.ok(Math.abs(Date.parse(at) - asked) < 60_000);
      assert.equal(
        tenant,
        name === 'CreateTenant' ? answer.body.id : name.endsWith('AdminKey') ? undefined : world.tenant.id,
      );
      assertShows(was, entry.before);
      assertShows(became, entry.after);
      const [line, ...others] = lines
        .map((each) => JSON.parse(each))
        .filter(({ msg, requestId }) => msg === 'audit' && requestId === rest.requestId);
      assert.deepEqual(others, []);
      const { action, target, actor, address } = line;
      assert.deepEqual(
        { action, target, actor, address },
        { action: name, target: rest.target, actor: rest.actor, address: '127.0.0.1' },
      );
    });

    test('leaves none when it fails or has no effect', async () => {
      const world = await newWorld(service);
      await entry.prepare?.(world);
      await done(entry.act(world));
      const last = await lastId();
      const [status, fail] = entry.fails;
      const failed = await fail(world);
      assert.equal(failed.status, status, failed.text);
      if (entry.idle !== undefined) await done(entry.idle(world));
      assert.deepEqual(await eventsAfter(last, world), []);
    });

    test('does nothing when it dies before its event is written', async () => {
      const world = await newWorld(service);
      await entry.prepare?.(world);
      const [last, as] = [await lastId(), await stateOf(world)];
      const answer = await killedAtItsEvent(() => (entry.actAtOnce ?? entry.act)(world));
      assert.equal(answer.status, 503, answer.text);
      assert.deepEqual(await stateOf(world), as);
      assert.deepEqual(await eventsAfter(last, world), []);
    });
  });
}

test('no secret, no hash of one and no payload is in the audit log or in the log', async () => {
  const events = JSON.stringify(await service.sql('select * from stint.audit_event'));
  const everything = events + lines.join('\n');
  assert.ok(secrets.size > 10);
  for (const secret of secrets) {
    const hash = createHash('sha256').update(secret).digest();
    for (const text of [secret, hash.toString('hex'), hash.toString('base64'), hash.toString('base64url')]) {
      assert.ok(!everything.includes(text));
    }
  }
  assert.doesNotMatch(everything, /stint_[A-Za-z0-9]{8}|not for the log/);
});

/** `shown` has all that is `wanted`; both are absent together. */
function assertShows(shown: any, wanted: object | undefined): void {
  if (wanted === undefined) return assert.equal(shown, undefined);
  assert.ok(shown !== undefined);
  const members = Object.fromEntries(Object.keys(wanted).map((name) => [name, shown[name]]));
  assert.deepEqual(members, wanted);
}

/** All that an act could have changed of this tenant, or of what is new. */
async function stateOf({ tenant, fresh }: World): Promise<unknown> {
  const ofQueues = 'queue_id in (select id from stint.queue where tenant_id = $1)';
  const both = [tenant.id, fresh];
  return Promise.all([
    service.sql('select name, limits, suspended_at, closed_at from stint.tenant where id = $1 or name = $2', both),
    service.sql(
      `select id, name, scopes, secret_hash, previous_hash, previous_until, revoked_at
      from stint.api_key where tenant_id = $1 or name = $2 order by id`,
      both,
    ),
    service.sql(
      `select id, name, paused_at, closed_at, closing, cut, max_attempts, visibility_timeout, updated_at
      from stint.queue where tenant_id = $1 order by id`,
      [tenant.id],
    ),
    ...['ready', 'scheduled', 'dead'].map((table) =>
      service.sql(`select job_id from stint.${table} where ${ofQueues} order by job_id`, [tenant.id]),
    ),
  ]);
}

/** The answer to a call whose connection to the database is ended while it waits to write its event. */
async function killedAtItsEvent(call: () => Promise<Answer>): Promise<Answer> {
  const holder = new pg.Client({ connectionString: service.database.url });
  await holder.connect();
  try {
    await holder.query('begin');
    await holder.query('lock table stint.audit_event in share row exclusive mode');
    const answering = call();
    // Not on the holder's connection: within a transaction pg_stat_activity stays as it was.
    const killed = async (): Promise<boolean> => {
      const rows = await service.sql(
        `select pg_terminate_backend(pid) from pg_stat_activity
        where wait_event_type = 'Lock' and query like '%insert into audit_event%' and datname = current_database()`,
      );
      return rows.length > 0;
    };
    await until('the call waits to write its event', killed);
    return await answering;
  } finally {
    await holder.end();
  }
}
