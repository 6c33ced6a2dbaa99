import assert from 'node:assert/strict';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { exportJWK } from 'jose';
import { until } from './parts.js';
import {
  ISSUER,
  issue,
  newPair,
  openTokens,
  type Pair,
  refusedAs,
  settings,
  startIssuer,
  type TestIssuer,
} from './token-issuer.js';

const NOT_PUBLISHED = /key that its issuer does not publish/;
const AWAY = refusedAs(/keys of the token’s issuer cannot be read/, 'UNAVAILABLE');
const FOREVER = { exp: 4_102_444_800 };

let first: Pair;
let second: Pair;
let issuer: TestIssuer;
let opened: ReturnType<typeof openTokens>;

before(async () => {
  first = await newPair('ES256', 'first');
  second = await newPair('ES256', 'second');
});
beforeEach(async () => {
  issuer = await startIssuer([first.jwk]);
  opened = openTokens([settings({ url: issuer.url })]);
});
afterEach(() => issuer.close());

/** No two tokens alike, so that none is remembered. */
let issued = 0;
const token = (pair: Pair) => issue(pair, { ...FOREVER, sub: `s${++issued}` });

/** Ways in which an issuer can fail, each with what is told of it. */
const failures: Readonly<Record<string, readonly [RequestListener, RegExp]>> = {
  'answers 500': [(_, response) => response.writeHead(500).end('{"keys":[]}'), /status 500/],
  'answers 204 and nothing': [(_, response) => response.writeHead(204).end(), /not JSON/],
  'sends what is not JSON': [(_, response) => response.end('<html>Sign in</html>'), /not JSON/],
  'sends no key set': [(_, response) => response.end('{"keys":{}}'), /not an object with a list of keys/],
  'sends null': [(_, response) => response.end('null'), /not an object with a list of keys/],
  'hangs up': [(request) => request.socket.destroy(), /./],
  'hangs up amid the answer': [
    (_, response) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('{"keys":', () => response.destroy());
    },
    /./,
  ],
  'sends more than 1 MiB': [(_, response) => response.end(' '.repeat(1024 * 1024 + 1)), /larger than/],
};

describe('the keys of an issuer', () => {
  test('are fetched once, when first needed, whoever waits for them', async () => {
    const tokens = await Promise.all(Array.from({ length: 20 }, () => token(first)));
    assert.equal(issuer.requests, 0);
    await Promise.all(tokens.map(opened.verify));
    assert.equal(issuer.requests, 1);
    assert.deepEqual(opened.troubles, []);
  });

  test('are fetched again for a kid that is not known, but not within 30 s', async () => {
    await opened.verify(await token(first));
    issuer.keys = [first.jwk, second.jwk];
    opened.clock.now += 29_999;
    await assert.rejects(opened.verify(await token(second)), refusedAs(NOT_PUBLISHED));
    assert.equal(issuer.requests, 1);
    opened.clock.now += 1;
    await opened.verify(await token(second));
    await opened.verify(await token(first));
    assert.equal(issuer.requests, 2);
  });

  test('are not fetched more often than each 30 s, however many unknown kids come', async () => {
    await opened.verify(await token(first));
    for (let round = 1; round <= 3; round++) {
      opened.clock.now += 30_000;
      const strangers = Array.from({ length: 100 }, (_, index) => token({ ...second, kid: `${round} ${index}` }));
      for (const stranger of await Promise.all(strangers.slice(50)))
        await assert.rejects(opened.verify(stranger), refusedAs(NOT_PUBLISHED));
      await Promise.all(
        strangers.map(async (stranger) => assert.rejects(opened.verify(await stranger), refusedAs(NOT_PUBLISHED))),
      );
      assert.equal(issuer.requests, 1 + round);
    }
    issuer.answer = failures['answers 500']![0];
    opened.clock.now += 30_000;
    for (let count = 0; count < 5; count++)
      await assert.rejects(opened.verify(await token(second)), refusedAs(NOT_PUBLISHED));
    assert.equal(issuer.requests, 5);
  });

  test('are fetched again after 10 minutes while the old ones still serve, without a wait', async () => {
    await opened.verify(await token(first));
    opened.clock.now += 599_999;
    await opened.verify(await token(first));
    assert.equal(issuer.requests, 1);
    let release!: () => void;
    issuer.answer = (_, response) => (release = () => void response.end(JSON.stringify({ keys: [second.jwk] })));
    opened.clock.now += 1;
    await opened.verify(await token(first));
    await until(() => issuer.requests === 2);
    await opened.verify(await token(first));
    release();
    await until(async () =>
      opened.verify(await token(second)).then(
        () => true,
        () => false,
      ),
    );
    assert.equal(issuer.requests, 2);
    await assert.rejects(opened.verify(await token(first)), refusedAs(NOT_PUBLISHED));
  });

  test('that have been withdrawn are gone at the next fetch, also for tokens that are remembered', async () => {
    const held = await token(first);
    await opened.verify(held);
    issuer.keys = [second.jwk];
    opened.clock.now += 30_000;
    await opened.verify(await token(second));
    await assert.rejects(opened.verify(held), refusedAs(NOT_PUBLISHED));
  });

  test('are fetched again after 10 minutes for a remembered token too', async () => {
    opened.clock.now += 400_000;
    const held = await token(first);
    await opened.verify(await token(first));
    opened.clock.now += 400_000;
    await opened.verify(held);
    issuer.keys = [second.jwk];
    opened.clock.now += 200_000;
    assert.ok(opened.knows(held));
    await until(() => issuer.requests === 2 && !opened.knows(held));
    await assert.rejects(opened.verify(held), refusedAs(NOT_PUBLISHED));
  });

  test('that are the same as before leave remembered tokens remembered', async () => {
    const held = await token(first);
    await opened.verify(held);
    opened.clock.now += 30_000;
    await assert.rejects(opened.verify(await token(second)), refusedAs(NOT_PUBLISHED));
    assert.equal(issuer.requests, 2);
    assert.ok(opened.knows(held));
  });

  test('are all gone when the issuer publishes none, which is told', async () => {
    await opened.verify(await token(first));
    issuer.keys = [];
    opened.clock.now += 30_000;
    await assert.rejects(opened.verify(await token(second)), refusedAs(NOT_PUBLISHED));
    await assert.rejects(opened.verify(await token(first)), refusedAs(NOT_PUBLISHED));
    assert.deepEqual(opened.troubles, [`${ISSUER} the key set has no key that can be used`]);
  });

  test('are fetched when the clock was set back', async () => {
    await opened.verify(await token(first));
    opened.clock.now -= 3_600_000;
    issuer.keys = [first.jwk, second.jwk];
    const early = await issue(second, { ...FOREVER, iat: 0 });
    await opened.verify(early);
  });
});

describe('keys that do not verify', () => {
  test('are passed over: private ones, other kinds, broken ones and what is no key', async () => {
    const leaked = { ...(await exportJWK(second.privateKey)), kid: 'second' };
    const strangers = [null, 7, 'key', [], {}, { kty: 'EC' }, { kty: 'OKP', crv: 'X25519', x: 'AA' }];
    issuer.keys = [leaked, ...strangers, { kty: 'EC', crv: 'P-256', kid: 'broken' }, first.jwk];
    await opened.verify(await token(first));
    await assert.rejects(opened.verify(await token(second)), refusedAs(NOT_PUBLISHED));
    await assert.rejects(
      opened.verify(await token({ ...second, kid: 'broken' })),
      refusedAs(/signature does not hold/),
    );
  });

  test('are those for other uses, and RSA keys of less than 2048 bits', async () => {
    const { generateKeyPairSync } = await import('node:crypto');
    const weak = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' });
    issuer.keys = [
      { ...first.jwk, use: 'enc' },
      { ...second.jwk, alg: 'ES384' },
      { ...weak, kid: 'weak' },
    ];
    await assert.rejects(opened.verify(await token(first)), refusedAs(NOT_PUBLISHED));
    await assert.rejects(opened.verify(await token(second)), refusedAs(NOT_PUBLISHED));
    const strong = await newPair('RS256', 'weak');
    await assert.rejects(opened.verify(await token(strong)), refusedAs(/signature does not hold/));
  });
});

describe('a token that names no key', () => {
  const unnamed = (pair: Pair) => token({ ...pair, kid: undefined });

  test('is tried with each that fits', async () => {
    issuer.keys = [first.jwk, second.jwk, (await newPair('RS256')).jwk];
    await opened.verify(await unnamed(first));
    await opened.verify(await unnamed(second));
    await assert.rejects(opened.verify(await unnamed(await newPair('ES256'))), refusedAs(/signature does not hold/));
    const expired = await issue({ ...second, kid: undefined }, { exp: 1 });
    await assert.rejects(opened.verify(expired), refusedAs(/has expired/));
  });

  test('is tried with 8 and no more', async () => {
    const others = await Promise.all(Array.from({ length: 8 }, () => newPair('ES256')));
    issuer.keys = [...others.map(({ jwk }) => jwk), first.jwk];
    await opened.verify(await unnamed(others[7]!));
    await assert.rejects(opened.verify(await unnamed(first)), refusedAs(/signature does not hold/));
  });

  test('has the keys read again when none fits, within the same bounds', async () => {
    issuer.keys = [{ ...first.jwk, kid: undefined }];
    await opened.verify(await unnamed(first));
    issuer.keys = [{ ...second.jwk, kid: undefined }];
    await assert.rejects(opened.verify(await unnamed(second)), refusedAs(/signature does not hold/));
    opened.clock.now += 30_000;
    await opened.verify(await unnamed(second));
    assert.equal(issuer.requests, 2);
  });
});

describe('while the issuer is away', () => {
  for (const [how, [answer, told]] of Object.entries(failures)) {
    test(`(it ${how}) its keys go on to serve, and without any its tokens are UNAVAILABLE`, async () => {
      await opened.verify(await token(first));
      issuer.answer = answer;
      for (let count = 2; count <= 4; count++) {
        opened.clock.now += 3_600_000;
        await opened.verify(await token(first));
        await until(() => issuer.requests === count);
        await opened.verify(await token(first));
      }
      await until(() => opened.troubles.length > 0);
      assert.equal(opened.troubles.length, 1);
      assert.match(opened.troubles[0]!, told);

      const fresh = openTokens([settings({ url: issuer.url })]);
      await assert.rejects(fresh.verify(await token(first)), AWAY);
      assert.equal(fresh.troubles.length, 1);
    });
  }

  test('it is told once for each outage', async () => {
    await opened.verify(await token(first));
    for (let outage = 1; outage <= 2; outage++) {
      issuer.answer = failures['answers 500']![0];
      for (let count = 0; count < 3; count++) {
        opened.clock.now += 30_000;
        await assert.rejects(opened.verify(await token(second)), refusedAs(NOT_PUBLISHED));
      }
      assert.equal(opened.troubles.length, outage);
      issuer.answer = undefined;
      opened.clock.now += 30_000;
      await assert.rejects(opened.verify(await token(second)), refusedAs(NOT_PUBLISHED));
    }
    assert.equal(issuer.requests, 9);
  });

  test('it is tried each 30 s and no more often', async () => {
    await opened.verify(await token(first));
    issuer.answer = failures['answers 500']![0];
    opened.clock.now += 600_000;
    await opened.verify(await token(first));
    await until(() => opened.troubles.length === 1);
    opened.clock.now += 29_999;
    for (let count = 0; count < 5; count++) await opened.verify(await token(first));
    assert.equal(issuer.requests, 2);
    issuer.answer = undefined;
    issuer.keys = [first.jwk, second.jwk];
    opened.clock.now += 1;
    await opened.verify(await token(first));
    await until(() => issuer.requests === 3);
    await opened.verify(await token(second));
    assert.equal(issuer.requests, 3);
  });

  test('a redirect is not followed', async () => {
    const elsewhere = await startIssuer([first.jwk]);
    try {
      issuer.answer = (_, response) => response.writeHead(302, { location: elsewhere.url }).end();
      await assert.rejects(opened.verify(await token(first)), AWAY);
      assert.equal(elsewhere.requests, 0);
    } finally {
      await elsewhere.close();
    }
  });

  test('it is tried each 5 s while there are no keys, and callers are told to come again', async () => {
    issuer.answer = failures['answers 500']![0];
    const tokens = await Promise.all(Array.from({ length: 10 }, () => token(first)));
    await Promise.all(tokens.map((each) => assert.rejects(opened.verify(each), AWAY)));
    await assert.rejects(opened.verify(tokens[0]!), (error: any) => error.retryAfter === 5);
    assert.equal(issuer.requests, 1);
    issuer.answer = undefined;
    opened.clock.now += 4_999;
    await assert.rejects(opened.verify(tokens[0]!), AWAY);
    opened.clock.now += 1;
    await opened.verify(tokens[0]!);
    assert.equal(issuer.requests, 2);
  });

  test('a wait for an answer that does not come ends after 5 s, and who has keys does not wait', async () => {
    await opened.verify(await token(first));
    issuer.answer = (_, response) => void response.write('{"keys":[');
    opened.clock.now += 600_000;
    await opened.verify(await token(first));
    const fresh = openTokens([settings({ url: issuer.url })]);
    const began = performance.now();
    await assert.rejects(fresh.verify(await token(first)), AWAY);
    const waited = performance.now() - began;
    assert.ok(waited > 4_500 && waited < 9_000, `${waited} ms`);
    await opened.verify(await token(first));
    await until(() => opened.troubles.length === 1);
  });

  test('tokens of other issuers are served', async () => {
    const other = await startIssuer([second.jwk]);
    try {
      issuer.answer = failures['answers 500']![0];
      const both = openTokens([
        settings({ url: issuer.url }),
        settings({ url: other.url }, { issuer: 'https://other.example' }),
      ]);
      await assert.rejects(both.verify(await token(first)), AWAY);
      await both.verify(await issue(second, { iss: 'https://other.example' }));
    } finally {
      await other.close();
    }
  });
});

describe('keys in a file', () => {
  let directory: string;
  let file: string;

  before(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'stint-keys-'));
    file = path.join(directory, 'jwks.json');
  });
  after(() => rm(directory, { recursive: true }));
  beforeEach(() => {
    opened = openTokens([settings({ file })]);
  });

  /** As deployments do it: at once, so that no half of it is read. */
  const publish = async (...pairs: readonly Pair[]) => {
    await writeFile(`${file}.new`, JSON.stringify({ keys: pairs.map(({ jwk }) => jwk) }));
    await rename(`${file}.new`, file);
  };

  test('are read again when the file has changed, 5 s later at the latest', async () => {
    await publish(first);
    await opened.verify(await token(first));
    await publish(second);
    opened.clock.now += 4_999;
    await assert.rejects(opened.verify(await token(second)), refusedAs(NOT_PUBLISHED));
    opened.clock.now += 1;
    await opened.verify(await token(second));
    await assert.rejects(opened.verify(await token(first)), refusedAs(NOT_PUBLISHED));
  });

  test('that go away end the tokens they have signed, remembered or not', async () => {
    await publish(first, second);
    const held = await token(first);
    await opened.verify(held);
    await publish(second);
    opened.clock.now += 5_000;
    await opened.verify(held);
    await until(() => !opened.knows(held));
    await assert.rejects(opened.verify(held), refusedAs(NOT_PUBLISHED));
  });

  test('serve on while the file is missing or broken', async () => {
    await publish(first);
    await opened.verify(await token(first));
    for (const spoil of [() => rm(file), () => writeFile(file, '{'), () => writeFile(file, ' '.repeat(1_048_577))]) {
      await spoil();
      opened.clock.now += 5_000;
      await assert.rejects(opened.verify(await token(second)), refusedAs(NOT_PUBLISHED));
      await opened.verify(await token(first));
    }
    assert.equal(opened.troubles.length, 1);
    await publish(second);
    opened.clock.now += 5_000;
    await opened.verify(await token(second));
  });

  test('that cannot be read make tokens UNAVAILABLE until they can', async () => {
    await rm(file, { force: true });
    await assert.rejects(opened.verify(await token(first)), AWAY);
    await publish(first);
    opened.clock.now += 5_000;
    await opened.verify(await token(first));
  });
});
