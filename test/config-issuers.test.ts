import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { readIssuers } from '../src/config-issuers.js';

const directory = mkdtempSync(path.join(tmpdir(), 'stint-issuers-'));
const file = path.join(directory, 'issuers.json');
after(() => rmSync(directory, { recursive: true }));

const least = {
  issuer: 'https://login.acme.example/',
  audience: 'stint',
  jwks: 'https://login.acme.example/jwks.json',
  tenantClaim: 'tenant',
};

function read(given: unknown) {
  writeFileSync(file, typeof given === 'string' ? given : JSON.stringify(given));
  return readIssuers(file);
}

/** The lines of the message, without what each begins with. */
function faults(given: unknown): string[] {
  try {
    read(given);
  } catch (error) {
    return (error as Error).message.split('\n').map((line) => {
      assert.ok(line.startsWith(`STINT_JWT_ISSUERS_FILE ${file}`), line);
      return line.slice(`STINT_JWT_ISSUERS_FILE ${file}`.length).replace(/^: /, '');
    });
  }
  return [];
}

const faultOf = (more: Record<string, unknown>) => faults([{ ...least, ...more }]).join('\n');

test('what is not said of an issuer has its default', () => {
  assert.deepEqual(read([least]), [
    {
      issuer: 'https://login.acme.example/',
      audiences: ['stint'],
      jwks: { url: 'https://login.acme.example/jwks.json' },
      algorithms: ['RS256', 'PS256', 'ES256', 'EdDSA'],
      tenantClaim: 'tenant',
      scopeClaim: 'scope',
      scopePrefix: '',
      leewaySeconds: 30,
    },
  ]);
});

test('all that is said of an issuer is taken', () => {
  const all = {
    issuer: 'accounts.acme.example',
    audience: ['stint', 'jobs'],
    jwks: '/etc/stint/jwks.json',
    algorithms: ['EdDSA'],
    tenantClaim: 'https://acme.example/tenant',
    scopeClaim: 'scp',
    scopePrefix: 'stint:',
    leewaySeconds: 0,
  };
  const { audience, jwks, ...rest } = all;
  assert.deepEqual(read([all]), [{ ...rest, audiences: audience, jwks: { file: jwks } }]);
  assert.deepEqual(read('\uFEFF[]'), []);
});

test('a key set is behind https, on this machine, or in a file with an absolute path', () => {
  for (const jwks of ['http://localhost:1/k', 'http://127.0.0.1/k', 'http://[::1]:8/k', 'https://a.example/k', '/k'])
    assert.deepEqual(faults([{ ...least, jwks }]), []);
  const others = [
    'http://a.example/k',
    'http://localhost.evil.example/',
    'ftp://a.example',
    'file:///k',
    'k',
    './k',
    '',
  ];
  for (const jwks of [...others, 'http://127.0.0.1@evil.example/', 7, null, ['/k']])
    assert.match(faultOf({ jwks }), /^\[0\]\.jwks is .*: give the https URL of a key set/);
  const secret = faultOf({ jwks: 'https://me:hidden@a.example/k' });
  assert.match(secret, /without user and password/);
  assert.doesNotMatch(secret, /hidden/);
});

test('every fault is named at once, with its place and what is accepted', () => {
  const given = [
    least,
    { ...least, issuer: 'https://b.example', algorithms: ['HS256', 'RS256', 'none'], leewaySeconds: 61, tenant: 't' },
    { audience: [], jwks: 'http://c.example' },
    { ...least, audience: ['ok', ''] },
    7,
  ];
  assert.deepEqual(faults(given), [
    '[1].tenant is not a member of an issuer: did you mean tenantClaim?',
    '[1].algorithms[0] is "HS256": give one of RS256, PS256, ES256, EdDSA',
    '[1].algorithms[2] is "none": give one of RS256, PS256, ES256, EdDSA',
    '[1].leewaySeconds is 61: give a whole number from 0 to 60',
    '[2].issuer is missing: give the iss claim of its tokens to the letter, 1 to 512 characters',
    '[2].audience is []: give an audience, 1 to 512 characters, or a list of 1 to 20',
    '[2].jwks is "http://c.example": give the https URL of a key set (http only for localhost), without user and password, or the absolute path of a file',
    '[2].tenantClaim is missing: give the name of a claim, 1 to 256 characters',
    '[3].audience[1] is "": give an audience, 1 to 512 characters',
    '[3].issuer is "https://login.acme.example/", as [0].issuer is: an issuer may stand only once',
    '[4] is 7: give an object with issuer, audience, jwks, algorithms, tenantClaim, scopeClaim, scopePrefix, leewaySeconds',
  ]);
});

test('values of the wrong kind or beyond their bounds are faults', () => {
  const wrong: [string, readonly unknown[]][] = [
    ['issuer', ['', 7, null, ['a'], {}, 'i'.repeat(513)]],
    ['audience', ['', 7, null, {}, Array(21).fill('a')]],
    ['algorithms', ['RS256', [], null, {}, 7]],
    ['tenantClaim', ['', 7, null, ['tenant'], 'c'.repeat(257)]],
    ['scopeClaim', ['', 7, null, ['scope'], 'c'.repeat(257)]],
    ['scopePrefix', ['', 'a b', 7, null, 'p'.repeat(101)]],
    ['leewaySeconds', [-1, 60.5, 61, '30', null, [30]]],
  ];
  for (const [name, values] of wrong) {
    for (const value of values) assert.match(faultOf({ [name]: value }), new RegExp(`^\\[0\\]\\.${name} is .*: give `));
  }
  assert.match(
    faultOf({ audiences: 'stint' }),
    /^\[0\]\.audiences is not a member of an issuer: did you mean audience\?$/,
  );
  assert.match(
    faults(`[${JSON.stringify(least).replace('{', '{"__proto__":{},')}]`).join(),
    /__proto__ is not a member/,
  );
});

test('a file that is missing, is not JSON, is no list or is too long a one is a fault', () => {
  assert.throws(() => readIssuers(path.join(directory, 'none.json')), /none\.json cannot be read: ENOENT/);
  assert.match(faults('{')[0]!, /^ is not JSON: /);
  assert.deepEqual(faults(least)[0]!.replace(/ \{.*: give/, ' …: give'), 'it holds …: give a list of issuers');
  const many = (count: number) => Array.from({ length: count }, (_, index) => ({ ...least, issuer: `i${index}` }));
  assert.equal(read(many(100)).length, 100);
  assert.deepEqual(faults(many(101)), ['it lists 101 issuers: give at most 100']);
});
