import { open } from 'node:fs/promises';
import type { JWK } from 'jose';
import type { KeyPlace } from './jwt-issuer.js';

const FETCH_MS = 5_000;
const MOST_BYTES = 1024 * 1024;

/** Where keys are read from, and how often. */
export interface KeySource {
  /** The keys that may verify a signature, as published now. Rejects with an Error in plain words. */
  load(): Promise<readonly JWK[]>;
  /** Age at which they are read again. */
  readonly freshMs: number;
  /** The least time between two readings. */
  readonly coolDownMs: number;
}

/** The source of an issuer's keys. A file is looked at often, since looking costs nothing; what is read is at most 1 MiB. */
export function createKeySource(place: KeyPlace, fetch: typeof globalThis.fetch): KeySource {
  if ('file' in place) return { load: fileLoader(place.file), freshMs: 5_000, coolDownMs: 5_000 };
  const load = async () => usableKeys(await fetchText(place.url, fetch));
  return { load, freshMs: 600_000, coolDownMs: 30_000 };
}

async function fetchText(url: string, fetch: typeof globalThis.fetch): Promise<string> {
  const response = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(FETCH_MS) });
  if (!response.ok) {
    await response.body?.cancel();
    throw new Error(`the key set was answered with status ${response.status}`);
  }
  const chunks: Uint8Array[] = [];
  let size = 0;
  const body: AsyncIterable<Uint8Array> | null = response.body;
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > MOST_BYTES) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** Reads the file when it is another than last time. */
function fileLoader(file: string): () => Promise<readonly JWK[]> {
  let last: { readonly state: string; readonly keys: readonly JWK[] } | undefined;
  return async () => {
    const handle = await open(file);
    try {
      const { mtimeMs, size, ino } = await handle.stat();
      const state = [mtimeMs, size, ino].join();
      if (last?.state === state) return last.keys;
      if (size > MOST_BYTES) throw tooLarge();
      last = { state, keys: usableKeys(await handle.readFile('utf8')) };
      return last.keys;
    } finally {
      await handle.close();
    }
  };
}

function usableKeys(text: string): JWK[] {
  let set: unknown;
  try {
    set = JSON.parse(text);
  } catch (error) {
    throw new Error('the key set is not JSON', { cause: error });
  }
  if (typeof set !== 'object' || set === null || !('keys' in set) || !Array.isArray(set.keys)) {
    throw new Error('the key set is not an object with a list of keys');
  }
  return set.keys.filter(isUsable);
}

/** Secrets, private keys and kinds that none of our algorithms takes are as if they were not there. */
function isUsable(key: unknown): key is JWK {
  if (typeof key !== 'object' || key === null) return false;
  const { kty, crv, d } = key as JWK;
  if (d !== undefined) return false;
  return kty === 'RSA' || (kty === 'EC' && crv === 'P-256') || (kty === 'OKP' && crv === 'Ed25519');
}

function tooLarge(): Error {
  return new Error(`the key set is larger than ${MOST_BYTES} bytes`);
}
