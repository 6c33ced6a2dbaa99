import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { exportSPKI } from 'jose';
import { ServiceError } from '../../src/errors.js';
import { createSecret } from '../../src/tenants/secret.js';
import { looksLikeToken } from '../../src/tenants/tokens.js';
import {
  ALL,
  ISSUER,
  issue,
  newPair,
  openTokens,
  type Pair,
  part,
  refusedAs,
  settings,
  signedAsIs,
  startIssuer,
  type TestIssuer,
} from './token-issuer.js';

const SIGNATURE = /signature does not hold/;
const ALGORITHM = /algorithm \(alg\)/;
const NOT_PUBLISHED = /key that its issuer does not publish/;
const TENANT = /must name one tenant/;
const EXPIRY = /must say when it expires/;

let issuer: TestIssuer;
let rsa: Pair;
let elliptic: Pair;
let opened: ReturnType<typeof openTokens>;

before(async () => {
  rsa = await newPair('RS256', 'rsa');
  elliptic = await newPair('ES256', 'elliptic');
  issuer = await startIssuer([rsa.jwk, elliptic.jwk]);
  opened = openTokens([settings({ url: issuer.url })]);
});
after(() => issuer.close());

const refuses = (token: string, message: RegExp) => assert.rejects(opened.verify(token), refusedAs(message));

describe('a token that holds', () => {
  test('gives its tenant, its subject and its scopes', async () => {
    const exp = opened.seconds() + 200;
    assert.deepEqual(await opened.verify(await issue(rsa, { scope: 'work read', exp })), {
      issuer: ISSUER,
      subject: 'worker-7',
      tenant: 'acme',
      scopes: new Set(['work', 'read']),
      expiresAt: (exp + 30) * 1_000,
    });
  });

  for (const alg of ALL) {
    test(`may be signed by ${alg}, if its issuer may sign so`, async () => {
      const pair = await newPair(alg, alg);
      const own = await startIssuer([pair.jwk]);
      try {
        const token = await issue(pair);
        const only = openTokens([settings({ url: own.url }, { algorithms: [alg] })]);
        assert.equal((await only.verify(token)).tenant, 'acme');
        const others = openTokens([settings({ url: own.url }, { algorithms: ALL.filter((other) => other !== alg) })]);
        await assert.rejects(others.verify(token), refusedAs(ALGORITHM));
      } finally {
        await own.close();
      }
    });
  }

  test('is held to the clock of the machine, unless another is given', async () => {
    const { verify } = openTokens([settings({ url: issuer.url })], { now: undefined });
    const now = Math.floor(Date.now() / 1_000);
    await verify(await issue(rsa, { exp: now + 300 }));
    await assert.rejects(verify(await issue(rsa, { exp: now - 60 })), refusedAs(/has expired/));
    await assert.rejects(verify(await issue(rsa, { nbf: now + 300 })), refusedAs(/not valid yet/));
  });

  test('may be for several audiences, one of which is ours', async () => {
    const two = openTokens([settings({ url: issuer.url }, { audiences: ['jobs', 'stint'] })]);
    await two.verify(await issue(rsa, { aud: ['console', 'jobs'] }));
    await two.verify(await issue(rsa, { aud: 'stint' }));
    await assert.rejects(two.verify(await issue(rsa, { aud: ['console'] })), refusedAs(/another audience/));
  });

  test('may have any typ, and no subject', async () => {
    assert.equal((await opened.verify(await issue(rsa, { sub: undefined }, { typ: 'at+jwt' }))).subject, '');
    assert.equal((await opened.verify(await issue(rsa, { sub: 7 }))).subject, '');
  });

  test('has its subject cut at 256 characters, and freed of what no log should get', async () => {
    assert.equal((await opened.verify(await issue(rsa, { sub: 's'.repeat(300) }))).subject, 's'.repeat(256));
    assert.equal((await opened.verify(await issue(rsa, { sub: 'a\u0000b\nc' }))).subject, 'a\uFFFDb\uFFFDc');
    const half = (await opened.verify(await issue(rsa, { sub: `${'s'.repeat(255)}😀` }))).subject;
    assert.equal(half, `${'s'.repeat(255)}\uFFFD`);
  });

  test('is remembered, so that it is answered at once, for 5 minutes and not past its expiry', async () => {
    const { tokens, clock, seconds } = openTokens([settings({ url: issuer.url })]);
    const start = clock.now;
    const [long, short] = [
      await issue(rsa, { exp: seconds() + 3_600 }),
      await issue(rsa, { exp: seconds() + 100, iat: seconds() }),
    ];
    const first = await tokens.verify(long);
    await tokens.verify(short);
    assert.equal(tokens.verify(long), first);
    clock.now = start + 129_999;
    assert.ok(!(tokens.verify(short) instanceof Promise));
    clock.now = start + 130_000;
    await assert.rejects(async () => await tokens.verify(short), refusedAs(/has expired/));
    clock.now = start + 299_999;
    assert.equal(tokens.verify(long), first);
    clock.now = start + 300_000;
    const again = tokens.verify(long);
    assert.ok(again instanceof Promise);
    assert.deepEqual(await again, first);
  });

  test('is forgotten when 10,000 others have been verified since, and no earlier', async () => {
    const pair = await newPair('EdDSA', 'fast');
    const own = await startIssuer([pair.jwk]);
    try {
      const { tokens } = openTokens([settings({ url: own.url })]);
      const token = await issue(pair, { sub: 'the first' });
      await tokens.verify(token);
      for (let batch = 0; batch < 100; batch++) {
        assert.ok(!(tokens.verify(token) instanceof Promise));
        const subjects = Array.from({ length: 100 }, (_, index) => `${batch} ${index}`);
        await Promise.all(subjects.map(async (sub) => await tokens.verify(await issue(pair, { sub }))));
      }
      const again = tokens.verify(token);
      assert.ok(again instanceof Promise);
      await again;
    } finally {
      await own.close();
    }
  });
});

describe('scopes of a token', () => {
  const scopesOf = async (scope: unknown, more = {}) => {
    const { verify } = openTokens([settings({ url: issuer.url }, more)]);
    return [...(await verify(await issue(rsa, { scope }))).scopes];
  };

  test('are words between spaces or a list', async () => {
    assert.deepEqual(await scopesOf('enqueue  work read manage tick'), ['enqueue', 'work', 'read', 'manage', 'tick']);
    assert.deepEqual(await scopesOf(['work', 'read']), ['work', 'read']);
  });

  test('are never admin, nor what we do not know', async () => {
    assert.deepEqual(await scopesOf('admin openid WORK work,read *'), []);
    assert.deepEqual(await scopesOf(['admin', 'work read', 7, null, ['work'], 'work']), ['work']);
  });

  test('may be none', async () => {
    for (const none of [undefined, '', [], 7, null, { work: true }]) assert.deepEqual(await scopesOf(none), []);
  });

  test('count with the prefix only, when there is one', async () => {
    const more = { scopePrefix: 'stint:' };
    assert.deepEqual(await scopesOf('stint:work read stint:admin stint: stint:stint:tick', more), ['work']);
  });

  test('stand in the claim that the issuer is configured with, dots and all', async () => {
    const { verify } = openTokens([
      settings(
        { url: issuer.url },
        { scopeClaim: 'https://acme.example/scp', tenantClaim: 'https://acme.example/tenant' },
      ),
    ]);
    const token = await issue(rsa, {
      'https://acme.example/scp': ['tick'],
      'https://acme.example/tenant': 'other',
    });
    const { scopes, tenant } = await verify(token);
    assert.deepEqual([tenant, ...scopes], ['other', 'tick']);
  });
});

describe('a token is refused', () => {
  const payload = (more = {}) => {
    const now = opened.seconds();
    return JSON.stringify({ iss: ISSUER, aud: 'stint', tenant: 'acme', scope: 'work', exp: now + 300, ...more });
  };

  test('without an alg, and with alg none in any letters', async () => {
    for (const alg of [undefined, 'none', 'None', 'NONE', '', 7, null, ['RS256'], { RS256: true }]) {
      await refuses(signedAsIs(rsa, { alg, kid: 'rsa' }, payload()), ALGORITHM);
      await refuses(`${part(JSON.stringify({ alg, kid: 'rsa' }))}.${part(payload())}.`, ALGORITHM);
    }
  });

  test('with an empty signature', async () => {
    for (const alg of ALL) await refuses(`${part(JSON.stringify({ alg, kid: 'rsa' }))}.${part(payload())}.`, /./);
    await refuses(`${part('{"alg":"RS256","kid":"rsa"}')}.${part(payload())}.`, SIGNATURE);
  });

  test('that is signed by HMAC with the public key as the secret', async () => {
    const pem = await exportSPKI(rsa.publicKey);
    const secrets = [pem, pem.trim(), JSON.stringify(rsa.jwk), rsa.jwk.n!, Buffer.from(rsa.jwk.n!, 'base64url')];
    for (const secret of secrets) {
      for (const alg of ['HS256', 'RS256']) {
        const input = `${part(JSON.stringify({ alg, kid: 'rsa' }))}.${part(payload())}`;
        const token = `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
        await refuses(token, alg === 'HS256' ? ALGORITHM : SIGNATURE);
      }
    }
  });

  test('that is signed with a secret, even one that the issuer publishes', async () => {
    const secret = Buffer.from('a secret of no more than 32 byte');
    const own = await startIssuer([rsa.jwk, { kty: 'oct', k: secret.toString('base64url'), kid: 'oct' }]);
    try {
      const { verify } = openTokens([settings({ url: own.url })]);
      for (const alg of ['HS256', ...ALL]) {
        const input = `${part(JSON.stringify({ alg, kid: 'oct' }))}.${part(payload())}`;
        const token = `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
        await assert.rejects(verify(token), refusedAs(alg === 'HS256' ? ALGORITHM : NOT_PUBLISHED));
      }
    } finally {
      await own.close();
    }
  });

  test('of an issuer that is not configured to the letter', async () => {
    for (const iss of [undefined, '', 'https://evil.example/', ISSUER.slice(0, -1), `${ISSUER} `, [ISSUER], 7, null])
      await refuses(await issue(rsa, { iss }), /issuer \(iss\)/);
  });

  test('of one issuer signed by another', async () => {
    const other = await startIssuer([(await newPair('RS256', 'rsa')).jwk]);
    try {
      const { verify } = openTokens([
        settings({ url: issuer.url }),
        settings({ url: other.url }, { issuer: 'https://other.example/' }),
      ]);
      await verify(await issue(rsa));
      await assert.rejects(verify(await issue(rsa, { iss: 'https://other.example/' })), refusedAs(SIGNATURE));
    } finally {
      await other.close();
    }
  });

  test('for another audience and for none', async () => {
    for (const aud of [undefined, '', 'Stint', 'stint ', [], ['console'], [['stint']], { stint: true }, 7, null])
      await refuses(await issue(rsa, { aud }), /another audience \(aud\)/);
  });

  test('without an expiry, and with one that is no time', async () => {
    for (const exp of [undefined, '4102444800', null, true, [4_102_444_800]])
      await refuses(await issue(rsa, { exp }), EXPIRY);
    const header = { alg: 'RS256', kid: 'rsa' };
    for (const exp of ['1e999', '1e300', '9007199254740991'])
      await refuses(signedAsIs(rsa, header, payload({ exp: 1 }).replace('"exp":1', `"exp":${exp}`)), EXPIRY);
  });

  test('that has expired or is not valid yet, the leeway allowed for and not a second more', async () => {
    const now = opened.seconds();
    assert.equal((await opened.verify(await issue(rsa, { exp: now - 29 }))).expiresAt, (now + 1) * 1_000);
    await refuses(await issue(rsa, { exp: now - 30 }), /has expired/);
    await opened.verify(await issue(rsa, { nbf: now + 30 }));
    await refuses(await issue(rsa, { nbf: now + 31 }), /not valid yet \(nbf\)/);
    await opened.verify(await issue(rsa, { iat: now + 30 }));
    await refuses(await issue(rsa, { iat: now + 31 }), /not valid yet: it was issued \(iat\)/);
    const strict = openTokens([settings({ url: issuer.url }, { leewaySeconds: 0 })]);
    await strict.verify(await issue(rsa, { exp: strict.seconds() + 1, nbf: strict.seconds(), iat: strict.seconds() }));
    await assert.rejects(strict.verify(await issue(rsa, { exp: strict.seconds() })), refusedAs(/has expired/));
    await assert.rejects(strict.verify(await issue(rsa, { nbf: strict.seconds() + 1 })), refusedAs(/not valid yet/));
    await assert.rejects(strict.verify(await issue(rsa, { iat: strict.seconds() + 1 })), refusedAs(/not valid yet/));
  });

  test('whose times are no numbers', async () => {
    for (const claims of [{ nbf: '0' }, { nbf: null }, { iat: '0' }, { iat: {} }])
      await refuses(await issue(rsa, claims), /claim (nbf|iat) is not what it should be/);
  });

  test('whose kid is a path, a statement or no text, and it is only ever compared', async () => {
    const paths = issuer.paths.length;
    for (const kid of [
      '../../etc/passwd',
      '/dev/null',
      "' or 1=1 --",
      '',
      '__proto__',
      'RSA',
      'rsa ',
      7,
      null,
      ['rsa'],
    ])
      await refuses(signedAsIs(rsa, { alg: 'RS256', kid }, payload()), NOT_PUBLISHED);
    assert.ok(issuer.paths.slice(paths).every((path) => path === '/jwks.json'));
  });

  test('without exactly one tenant', async () => {
    const none = [undefined, null, '', ' ', '*', 'acme,other', 'acme other', '../acme', `a${'b'.repeat(80)}`, 'acme\n'];
    for (const tenant of [...none, 'ácme', ['acme'], [], { name: 'acme' }, 7, true])
      await refuses(await issue(rsa, { tenant }), TENANT);
    for (const tenantClaim of ['constructor', 'toString', '__proto__', 'a.b']) {
      const { verify } = openTokens([settings({ url: issuer.url }, { tenantClaim })]);
      await assert.rejects(verify(await issue(rsa, { a: { b: 'acme' } })), refusedAs(TENANT));
    }
  });

  test('that was changed after it was signed', async () => {
    const [header, , signature] = (await issue(rsa)).split('.') as [string, string, string];
    await refuses(`${header}.${part(payload({ tenant: 'other' }))}.${signature}`, SIGNATURE);
    const valid = await issue(elliptic);
    const [, body, own] = valid.split('.') as [string, string, string];
    await refuses(`${part('{"alg":"ES256","kid":"elliptic","typ":"JWT"}')}.${body}.${own}`, SIGNATURE);
    await refuses(`${valid.slice(0, -6)}AAAAAA`, SIGNATURE);
    await refuses(`${valid}AAAA`, SIGNATURE);
  });

  test('whose algorithm is not that of the key it names', async () => {
    await refuses(signedAsIs(rsa, { alg: 'ES256', kid: 'rsa' }, payload()), NOT_PUBLISHED);
    await refuses(signedAsIs(rsa, { alg: 'RS256', kid: 'elliptic' }, payload()), NOT_PUBLISHED);
    await refuses(signedAsIs(rsa, { alg: 'PS256', kid: 'rsa' }, payload()), SIGNATURE);
  });

  test('that brings its own key or says where it is, and nobody is asked', async () => {
    const attacker = await newPair('RS256', 'rsa');
    const place = await startIssuer([attacker.jwk]);
    try {
      const headers = [{ jku: place.url }, { x5u: place.url }, { jwk: attacker.jwk }, { x5c: ['MIIB'] }];
      for (const header of headers) await refuses(await issue(attacker, {}, header), SIGNATURE);
      await refuses(await issue({ ...attacker, kid: place.url }, {}, { jku: place.url }), NOT_PUBLISHED);
      assert.equal(place.requests, 0);
    } finally {
      await place.close();
    }
  });

  test('with extensions that must be understood', async () => {
    const critical = [{ crit: ['exp'] }, { crit: ['b64'], b64: true }, { crit: [] }, { crit: null }, { crit: 'b64' }];
    for (const more of critical)
      await refuses(signedAsIs(rsa, { alg: 'RS256', kid: 'rsa', ...more }, payload()), /extensions \(crit\)/);
  });

  test('that is longer than 8 KiB, before it is read', async () => {
    await refuses(await issue(rsa, { padding: 'p'.repeat(9 * 1_024) }), /longer than 8192 characters/);
    await refuses('!'.repeat(8_193), /longer than 8192 characters/);
    await opened.verify(await issue(rsa, { padding: 'p'.repeat(5 * 1_024) }));
  });

  test('that is no compact JWS', async () => {
    const valid = await issue(rsa);
    const [header, body, signature] = valid.split('.') as [string, string, string];
    const json = JSON.stringify({ protected: header, payload: body, signature });
    const forms = ['', '.', '..', 'a.b', 'a.b.c', json, `${valid}.`, `${valid}.x.y`, `${header}..${signature}`];
    for (const token of [...forms, ` ${valid}`, `${valid}\n`, `${valid}=`, valid.replaceAll('.', ' ')])
      await refuses(token, /is not a JSON Web Token/);
    for (const text of ['null', '[]', '7', '"a"', '{']) {
      await refuses(`${part(text)}.${body}.${signature}`, /is not a JSON Web Token/);
      await refuses(signedAsIs(rsa, { alg: 'RS256', kid: 'rsa' }, text), /is not a JSON Web Token/);
    }
  });

  test('in words that hold nothing of it', async () => {
    const secret = 'f00dfeed';
    for (const claims of [{ iss: secret }, { aud: secret }, { tenant: [secret] }, { nbf: secret }, { exp: secret }]) {
      await assert.rejects(opened.verify(await issue(rsa, claims)), (error) => {
        return error instanceof ServiceError && !error.message.includes(secret);
      });
    }
  });
});

test('an API key is told from a token by its form', async () => {
  const keyId = '01890a5d-ac96-774b-bcce-b302099a8057';
  for (let count = 0; count < 100; count++) assert.equal(looksLikeToken(createSecret(keyId)), false);
  assert.equal(looksLikeToken(await issue(rsa)), true);
  assert.equal(looksLikeToken('e30.e30.'), true);
  for (const other of ['', 'a.b', '.b.c', 'a..c', 'a.b.c.d', 'a.b.c=', 'a.b.c\n', 'a b.c.d'])
    assert.equal(looksLikeToken(other), false);
});

describe('whatever is sent', () => {
  const json = fc.jsonValue({ maxDepth: 2 });
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.tuple(fc.base64String(), fc.base64String(), fc.base64String()).map((parts) => parts.join('.')),
    fc
      .tuple(fc.record({ alg: fc.oneof(fc.constantFrom(...ALL), json), kid: fc.oneof(fc.constant('rsa'), json) }), json)
      .map(([header, claims]) => `${part(JSON.stringify(header))}.${part(JSON.stringify(claims))}.AAAA`),
    fc
      .tuple(fc.record({ alg: fc.constantFrom(...ALL), kid: json }, { requiredKeys: ['alg'] }), fc.base64String())
      .map(([header, end]) => `${part(JSON.stringify(header))}.${part(JSON.stringify({ iss: ISSUER }))}.${end}`),
  );

  test('is refused as UNAUTHENTICATED and never fails otherwise', async () => {
    await fc.assert(
      fc.asyncProperty(text, (token) => assert.rejects(opened.verify(token), refusedAs(/^the token/))),
      { numRuns: 1_000 },
    );
  });

  test('and signed, gives one tenant and no admin, or is refused', async () => {
    const claims = fc.record(
      {
        tenant: fc.oneof(fc.constant('acme'), json),
        scope: fc.oneof(fc.constantFrom('work', 'admin', ['admin', 'read']), json),
        aud: fc.oneof(fc.constantFrom('stint', ['stint']), json),
        sub: fc.oneof(fc.string({ unit: 'binary' }), json),
        exp: fc.oneof(fc.constant(4_102_444_800), fc.double(), json),
        nbf: fc.oneof(fc.constant(0), fc.double(), json),
        iat: fc.oneof(fc.constant(0), fc.double(), json),
      },
      { requiredKeys: ['tenant', 'aud', 'exp'] },
    );
    let accepted = 0;
    await fc.assert(
      fc.asyncProperty(claims, async (given) => {
        const token = signedAsIs(rsa, { alg: 'RS256', kid: 'rsa' }, JSON.stringify({ iss: ISSUER, ...given }));
        const result = await opened.verify(token).catch((error: unknown) => error);
        if (result instanceof Error) return void refusedAs(/^the token/)(result);
        const { tenant, scopes, expiresAt } = result as Awaited<ReturnType<typeof opened.verify>>;
        assert.equal(tenant, given.tenant);
        assert.ok(!scopes.has('admin'));
        assert.ok(Number.isSafeInteger(expiresAt) && expiresAt > opened.clock.now);
        accepted++;
      }),
      { numRuns: 500 },
    );
    assert.ok(accepted > 0);
  });
});
