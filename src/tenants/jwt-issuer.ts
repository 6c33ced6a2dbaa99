/** Signatures of key pairs only: with a shared secret whoever can check a token could make one. */
export type JwtAlgorithm = 'RS256' | 'PS256' | 'ES256' | 'EdDSA';

/** Where an issuer publishes its keys: a URL, or the absolute path of a file. */
export type KeyPlace = { readonly url: string } | { readonly file: string };

/** An issuer whose tokens are accepted, and how they are read. */
export interface JwtIssuer {
  /** The `iss` claim to the letter. */
  readonly issuer: string;
  /** The `aud` claim must hold one of these. */
  readonly audiences: readonly string[];
  readonly jwks: KeyPlace;
  readonly algorithms: readonly JwtAlgorithm[];
  /** A claim's name as it stands; dots are part of it. */
  readonly tenantClaim: string;
  readonly scopeClaim: string;
  /** Only scopes that begin so count, without it; empty: all do. */
  readonly scopePrefix: string;
  /** How far its clock may be from ours: 0 to 60. */
  readonly leewaySeconds: number;
}
