import assert from 'node:assert/strict';
import { KeyObject, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose';
import { ServiceError } from '../../src/errors.js';
import type { JwtAlgorithm, JwtIssuer } from '../../src/tenants/jwt-issuer.js';
import { Tokens, type TokensOptions, type VerifiedToken } from '../../src/tenants/tokens.js';

export const ISSUER = 'https://login.acme.example/';
/** What the standing clocks show, in milliseconds: tests that take long let no token expire. */
const NOW = Math.floor(Date.now() / 1_000) * 1_000;

export const ALL: readonly JwtAlgorithm[] = ['RS256', 'PS256', 'ES256', 'EdDSA'];

export interface Pair {
  readonly alg: string;
  readonly kid: string | undefined;
  readonly privateKey: CryptoKey;
  readonly publicKey: CryptoKey;
  readonly jwk: JWK;
}

export async function newPair(alg: string, kid?: string): Promise<Pair> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), ...(kid === undefined ? {} : { kid }) };
  return { alg, kid, privateKey, publicKey, jwk };
}

/** A real HTTP server with a key set at `/jwks.json`. */
export async function startIssuer(keys: readonly unknown[] = []) {
  const state = { keys, requests: 0, paths: [] as string[], answer: undefined as RequestListener | undefined };
  const server = createServer((request, response) => {
    state.requests++;
    state.paths.push(request.url ?? '');
    if (state.answer !== undefined) state.answer(request, response);
    else response.end(JSON.stringify({ keys: state.keys }));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return Object.assign(state, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

export type TestIssuer = Awaited<ReturnType<typeof startIssuer>>;

export function settings(jwks: JwtIssuer['jwks'], more: Partial<JwtIssuer> = {}): JwtIssuer {
  return {
    issuer: ISSUER,
    audiences: ['stint'],
    jwks,
    algorithms: ALL,
    tenantClaim: 'tenant',
    scopeClaim: 'scope',
    scopePrefix: '',
    leewaySeconds: 30,
    ...more,
  };
}

/** With a clock that stands still until it is moved, and a list of the troubles told. */
export function openTokens(issuers: readonly JwtIssuer[], more: Partial<TokensOptions> = {}) {
  const clock = { now: NOW };
  const troubles: string[] = [];
  const tokens = new Tokens({
    issuers,
    onTrouble: (issuer, error) => troubles.push(`${issuer} ${(error as Error).message}`),
    now: () => clock.now,
    ...more,
  });
  return {
    clock,
    troubles,
    tokens,
    /** As a promise whatever it knows by heart. */
    verify: async (token: string): Promise<VerifiedToken> => await tokens.verify(token),
    /** Whether it is answered at once; asks for it all the same. */
    knows: (token: string): boolean => {
      const answer = tokens.verify(token);
      if (!(answer instanceof Promise)) return true;
      answer.catch(() => undefined);
      return false;
    },
    seconds: () => clock.now / 1_000,
  };
}

/** Valid for five minutes from `NOW` on, but for what `claims` says; undefined takes a claim away. */
export async function issue(pair: Pair, claims: Record<string, unknown> = {}, header: Record<string, unknown> = {}) {
  const now = NOW / 1_000;
  const all = { iss: ISSUER, aud: 'stint', sub: 'worker-7', tenant: 'acme', scope: 'work', iat: now, exp: now + 300 };
  const payload = JSON.parse(JSON.stringify({ ...all, ...claims })) as JWTPayload;
  const kid = pair.kid === undefined ? {} : { kid: pair.kid };
  return await new SignJWT(payload).setProtectedHeader({ alg: pair.alg, ...kid, ...header }).sign(pair.privateKey);
}

/** Signed by RS256 whatever header and payload say. */
export function signedAsIs(pair: Pair, header: unknown, payload: string): string {
  const input = `${part(JSON.stringify(header))}.${part(payload)}`;
  return `${input}.${sign('sha256', Buffer.from(input), KeyObject.from(pair.privateKey)).toString('base64url')}`;
}

export function part(text: string): string {
  return Buffer.from(text).toString('base64url');
}

export const refusedAs =
  (message: RegExp, code = 'UNAUTHENTICATED') =>
  (error: unknown): boolean => {
    assert.ok(error instanceof ServiceError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, message);
    return true;
  };
