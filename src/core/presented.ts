/** A credential as a caller presented it, taken apart. */
export interface Presented {
  /** The header or metadata as it came. */
  readonly authorization: string;
  readonly secret: string;
  readonly hash: Buffer;
}

/**
 * What a connection remembers of the credential that came over it last, so that it is taken apart once and not for each call (a hash
 * was 4 % of an enqueue). It is compared only with what the same peer sends, so its comparison tells nobody anything.
 */
export interface CredentialMemory {
  presented: Presented | undefined;
}
