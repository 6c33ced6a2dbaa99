import { hash, randomBytes } from 'node:crypto';

const FORM = /^stint_([0-9a-f]{32})_[A-Za-z0-9_-]{43}([A-Za-z0-9_-]{6})$/;
const CHECKSUM_LENGTH = 6;

/**
 * Makes the secret of a key: `stint_`, the key's id, `_`, 256 random bits, and 36 bits of checksum, by which scanners and we
 * tell a secret from what only looks like one.
 */
export function createSecret(keyId: string): string {
  const start = `stint_${keyId.replaceAll('-', '')}_${randomBytes(32).toString('base64url')}`;
  return start + checksumOf(start);
}

/** The id of the key that a secret says it is of; undefined for what cannot be a secret. */
export function keyIdOf(secret: string): string | undefined {
  const match = FORM.exec(secret);
  if (match === null || checksumOf(secret.slice(0, -CHECKSUM_LENGTH)) !== match[2]) return undefined;
  return match[1]!.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** What is kept of a secret. It is random, so a fast hash is as good as a slow one. */
export function hashSecret(secret: string): Buffer {
  return hash('sha256', secret, 'buffer');
}

function checksumOf(start: string): string {
  return hashSecret(start).toString('base64url').slice(0, CHECKSUM_LENGTH);
}
