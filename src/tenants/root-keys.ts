import { readFileSync, statSync } from 'node:fs';
import { hashSecret } from './secret.js';

const LOOK_EVERY_MS = 1_000;
const FORM = /^[!-~]{32,256}$/;

/** Hashes of the root keys that count at the moment. */
export type RootKeys = () => readonly Buffer[];

/** Root keys that stay what they are. */
export function fixedRootKeys(keys: readonly string[]): RootKeys {
  const hashes = keys.map(hashSecret);
  return () => hashes;
}

/**
 * Root keys from a file, a line each, read again within a second when it changes, so that one can be added before the other is taken
 * away. While it cannot be read, or holds something else, the keys before stay; `onTrouble` is told once.
 *
 * @throws Error in plain words when the file cannot be read at first
 */
export function fileRootKeys(file: string, onTrouble: (error: unknown) => void): RootKeys {
  let version = atFirst(() => versionOf(file));
  let hashes = atFirst(() => read(file));
  let lookAt = performance.now() + LOOK_EVERY_MS;
  let inTrouble = false;
  return () => {
    if (performance.now() < lookAt) return hashes;
    lookAt = performance.now() + LOOK_EVERY_MS;
    try {
      const now = versionOf(file);
      if (now !== version) hashes = read(file);
      version = now;
      inTrouble = false;
    } catch (error) {
      if (!inTrouble) onTrouble(error);
      inTrouble = true;
    }
    return hashes;
  };
}

function atFirst<T>(look: () => T): T {
  try {
    return look();
  } catch (error) {
    throw new Error(`STINT_ADMIN_KEY_FILE cannot be used: ${(error as Error).message}`, { cause: error });
  }
}

function versionOf(file: string): string {
  const { mtimeMs, ino, size } = statSync(file);
  return `${mtimeMs} ${ino} ${size}`;
}

function read(file: string): Buffer[] {
  const keys = readFileSync(file, 'utf8')
    .split(/\r?\n/)
    .filter((line) => line !== '');
  if (keys.length === 0 || !keys.every((key) => FORM.test(key))) {
    throw new Error(`${file} must hold root keys, a line each: 32 to 256 printable ASCII characters without spaces`);
  }
  return keys.map(hashSecret);
}
