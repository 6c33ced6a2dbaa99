import { measure, refuseInInit } from './stage.js';

const asleep = new Int32Array(new SharedArrayBuffer(4));

export function check<T>(value: T, sets: Record<string, (value: T) => boolean>, tags: Record<string, string> = {}) {
  refuseInInit('check');
  let isAllRight = true;
  for (const [name, holds] of Object.entries(sets)) {
    const isRight = holds(value);
    measure('checks', isRight ? 1 : 0, { ...tags, check: name });
    isAllRight &&= isRight;
  }
  return isAllRight;
}

export function fail(reason = ''): never {
  throw new Error(reason);
}

export function sleep(seconds: number): void {
  refuseInInit('sleep');
  if (!Number.isFinite(seconds)) throw new Error(`sleep takes seconds, not ${seconds}`);
  Atomics.wait(asleep, 0, 0, seconds * 1000);
}
