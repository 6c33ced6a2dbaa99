import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { v7 } from 'uuid';
import { ServiceError } from '../../src/errors.js';
import { createAuthenticate } from '../../src/tenants/authenticate.js';
import { KnownKeys } from '../../src/tenants/known-keys.js';
import { KnownTenants } from '../../src/tenants/known-tenants.js';
import { fixedRootKeys } from '../../src/tenants/root-keys.js';
import { createSecret } from '../../src/tenants/secret.js';
import { Tokens } from '../../src/tenants/tokens.js';
import { type Client, clientFor, startTestService, type TestService } from '../helpers/service.js';
import { openParts, type Parts } from '../tenants/parts.js';

/*
 * C67: somebody who tries keys. Wrong ones are well-formed, with a checksum that holds, so that nothing but the database can tell them
 * from right ones: they cost neither memory nor a query each, keep nobody out, and tell nothing by the time they take.
 */

const WRONG_KEYS = Number(process.env['STINT_TEST_WRONG_KEYS'] ?? 100_000);
/** As many at once as callers of a large installation. */
const SLICE = 1_000;
/** What is kept of bad keys is bounded in number: 10,000, of some 200 bytes. */
const MOST_KEPT = 10_001;
const MOST_HEAP_BYTES = 32 * 1024 * 1024;

describe('a flood of wrong keys', () => {
  let parts: Parts;
  let secret: string;

  before(async () => {
    parts = await openParts();
    secret = createSecret(v7());
    const tenant = v7();
    await parts.sql('insert into stint.tenant (id, name) values ($1, $2)', [tenant, 'right']);
    await parts.sql(
      `insert into stint.api_key (id, tenant_id, name, secret_hash, scopes)
       values ($1, $2, 'right', sha256($3::bytea), '{read}')`,
      [secret.slice(6, 38), tenant, secret],
    );
  });
  after(() => parts.close());

  test('costs a bounded memory and no query each, and the right key is let in all along', async (t) => {
    const keys = new KnownKeys(parts.connections);
    const authenticate = createAuthenticate({
      keys,
      tenants: new KnownTenants(parts.connections),
      tokens: new Tokens({ issuers: [], onTrouble: () => undefined }),
      rootHashes: fixedRootKeys([]),
    });
    const present = async (each: string) => authenticate(`Bearer ${each}`, { presented: undefined });
    let letIn = 0;
    const slice = async (): Promise<void> => {
      const tries = Array.from({ length: SLICE }, () => present(createSecret(v7())).catch((error: unknown) => error));
      letIn += (await present(secret)).tenant?.name === 'right' ? 1 : 0;
      for (const answer of await Promise.all(tries)) {
        assert.ok(answer instanceof ServiceError && answer.code === 'UNAUTHENTICATED', String(answer));
      }
    };
    const slices = WRONG_KEYS / SLICE;
    // What is kept is full from here on.
    for (let done = 0; done < 12; done += 1) await slice();
    const [heap, calls, began] = [heapBytes(), parts.calls(), performance.now()];
    for (let done = 0; done < slices; done += 1) await slice();
    const took = performance.now() - began;
    const grown = heapBytes() - heap;
    const queries = parts.calls() - calls;
    t.diagnostic(
      `${WRONG_KEYS} wrong keys: ${Math.round(took)} ms, ${queries} queries, ${keys.size} answers kept, heap ${Math.round(grown / 1024)} KiB`,
    );
    assert.ok(keys.size <= MOST_KEPT, `${keys.size} answers are kept`);
    assert.ok(grown < MOST_HEAP_BYTES, `the heap has grown by ${grown} bytes`);
    // One for a thousand, and those in which the right key is looked up anew.
    assert.ok(queries <= 3 * slices, `${queries} queries`);
    assert.equal(letIn, slices + 12);
  });

  test('over the wire, one key after another, keeps nobody out either', async () => {
    const service = await startTestService();
    try {
      const right = await service.tenant();
      const tries = Array.from({ length: 2_000 }, () => clientFor(service.base, createSecret(v7())));
      const answers: number[] = [];
      for (let from = 0; from < tries.length; from += 100) {
        const slice = tries.slice(from, from + 100).map(async (client) => (await client.get('/v1/queues')).status);
        answers.push((await right.get('/v1/queues')).status);
        for (const status of await Promise.all(slice)) assert.equal(status, 401);
      }
      assert.deepEqual([...new Set(answers)], [200]);
    } finally {
      await service.stop();
    }
  });
});

/** After a collection, so that garbage does not count. */
function heapBytes(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().heapUsed;
}

describe('the time that a refusal takes', () => {
  const PAIRS = 2_000;
  let service: TestService;
  before(async () => {
    service = await startTestService();
  });
  after(() => service.stop());

  /** Milliseconds of one call that is refused. */
  async function timed(client: Client): Promise<number> {
    const began = performance.now();
    const { status } = await client.get('/v1/queues');
    assert.equal(status, 401);
    return performance.now() - began;
  }

  const wrongSecret = (id: string): Client => clientFor(service.base, createSecret(id));

  test('is the same for a wrong secret of a key that there is and for a key that there is not, within noise', async (t) => {
    const known = (await service.tenant()).key
      .slice(6, 38)
      .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
    for (let warm = 0; warm < 300; warm += 1) await timed(wrongSecret(warm % 2 === 0 ? known : v7()));
    // Two series of each kind, interleaved, so that what else the machine does meets all of them alike.
    const series: Record<'known' | 'alsoKnown' | 'unknown' | 'alsoUnknown', number[]> = {
      known: [],
      alsoKnown: [],
      unknown: [],
      alsoUnknown: [],
    };
    for (let pair = 0; pair < PAIRS / 2; pair += 1) {
      series.known.push(await timed(wrongSecret(known)));
      series.unknown.push(await timed(wrongSecret(v7())));
      series.alsoUnknown.push(await timed(wrongSecret(v7())));
      series.alsoKnown.push(await timed(wrongSecret(known)));
    }
    const median = (times: readonly number[]): number =>
      [...times].sort((a, b) => a - b)[Math.floor(times.length / 2)]!;
    const [a, b, c, d] = [series.known, series.alsoKnown, series.unknown, series.alsoUnknown].map(median) as [
      number,
      number,
      number,
      number,
    ];
    const difference = Math.abs((a + b) / 2 - (c + d) / 2);
    const noise = Math.max(Math.abs(a - b), Math.abs(c - d));
    const typical = (a + b + c + d) / 4;
    t.diagnostic(
      `medians ${[a, b, c, d].map((each) => each.toFixed(3)).join(', ')} ms; difference ${difference.toFixed(3)}, noise ${noise.toFixed(3)}`,
    );
    assert.ok(difference <= Math.max(3 * noise, 0.1 * typical), `${difference} ms of ${typical}, noise ${noise}`);
  });
});
