import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import { assertProblem } from './jobs.js';

const WITHIN_MS = 2_000;
const UNAUTHENTICATED = { status: 401, code: 'UNAUTHENTICATED' };
const newKey = (): string => `root-${randomBytes(20).toString('hex')}`;
const list = (client: Client) => client.get('/v1/admin/tenants');
const isLetIn = async (client: Client): Promise<boolean> => (await list(client)).status === 200;

describe('two root keys in STINT_ADMIN_KEY', () => {
  const [first, second] = [newKey(), newKey()];
  let service: TestService;

  before(async () => {
    service = await startTestService({ STINT_ADMIN_KEY: `${first} ${second}` });
  });
  after(() => service.stop());

  test('both count, each alone, and nothing else does', async () => {
    for (const key of [first, second]) assert.equal((await list(clientFor(service.base, key))).status, 200);
    const others = [`${first} ${second}`, `${first}${second}`, first.slice(0, -1), `${first}x`, newKey(), ' '];
    for (const key of others) assertProblem(await list(clientFor(service.base, key)), UNAUTHENTICATED);
  });

  test('one replaces the other instance by instance, and the one that stays is never refused', async () => {
    const third = newKey();
    const next = await service.another({ STINT_ADMIN_KEY: `${second} ${third}` });
    try {
      for (const base of [service.base, next.base]) assert.ok(await isLetIn(clientFor(base, second)));
      assert.ok(await isLetIn(clientFor(next.base, third)));
      assertProblem(await list(clientFor(next.base, first)), UNAUTHENTICATED);
    } finally {
      await next.stop();
    }
  });
});

describe('root keys in STINT_ADMIN_KEY_FILE', () => {
  const [first, second] = [newKey(), newKey()];
  let directory: string;
  let file: string;
  let service: TestService;

  before(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'stint-root-keys-'));
    file = path.join(directory, 'keys');
    await writeFile(file, `${first}\n`, { mode: 0o600 });
    // An environment in which STINT_ADMIN_KEY is not set.
    const env = { STINT_ADMIN_KEY: undefined, STINT_ADMIN_KEY_FILE: file };
    service = await startTestService(env as unknown as Record<string, string>);
  });
  after(async () => {
    await service.stop();
    await rm(directory, { recursive: true });
  });

  async function replace(lines: readonly string[]): Promise<void> {
    await writeFile(`${file}.new`, lines.map((line) => `${line}\n`).join(''), { mode: 0o600 });
    await rename(`${file}.new`, file);
  }

  /** Calls with a key again and again until it is told to stop; answers the statuses that it met. */
  function calling(client: Client): { stop(): Promise<Set<number>> } {
    const met = new Set<number>();
    const stopping = new AbortController();
    const loop = (async () => {
      while (!stopping.signal.aborted) met.add((await list(client)).status);
    })();
    return {
      stop: async () => {
        stopping.abort();
        await loop;
        return met;
      },
    };
  }

  test('one is added, and then the other taken away, within 2 s each, and no call of the one that stays fails', async () => {
    const [old, fresh] = [clientFor(service.base, first), clientFor(service.base, second)];
    assertProblem(await list(fresh), UNAUTHENTICATED);
    const old1 = calling(old);
    await replace([first, second]);
    await until('the new one counts', () => isLetIn(fresh), WITHIN_MS);
    assert.deepEqual([...(await old1.stop())], [200]);
    const fresh1 = calling(fresh);
    await replace([second]);
    await until('the old one does not', async () => !(await isLetIn(old)), WITHIN_MS);
    assert.deepEqual([...(await fresh1.stop())], [200]);
  });

  test('a file without keys, or none at all, is said at the start', async () => {
    const start = (name: string) =>
      startTestService({ STINT_ADMIN_KEY: undefined, STINT_ADMIN_KEY_FILE: name } as unknown as Record<string, string>);
    await writeFile(path.join(directory, 'empty'), '\n\n');
    for (const name of ['empty', 'absent']) {
      await assert.rejects(start(path.join(directory, name)), new RegExp(name));
    }
  });
});
