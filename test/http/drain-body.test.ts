import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { describe, it } from 'node:test';
import { BodyDrain } from '../../src/http/drain-body.js';

const CHUNK = Buffer.alloc(64 * 1024);
const MIB = 1024 * 1024;

/** Drains a body of that length; answers whether it was whole, and how many milliseconds it took. */
async function drained(drain: BodyDrain, bytes: number): Promise<{ readonly whole: boolean; readonly took: number }> {
  const body = new PassThrough();
  const began = performance.now();
  const whole = drain.drain(body as unknown as IncomingMessage);
  void (async () => {
    for (let sent = 0; sent < bytes && !body.destroyed; sent += CHUNK.length) {
      if (!body.write(CHUNK)) await new Promise((resolve) => body.once('drain', resolve).once('close', resolve));
    }
    body.end();
  })();
  return { whole: await whole, took: performance.now() - began };
}

describe('bodies that nobody wants', () => {
  it('are read to the end, at once when they are small', async () => {
    const { whole, took } = await drained(new BodyDrain(), CHUNK.length);
    assert.ok(whole);
    assert.ok(took < 1_000, `took ${took} ms`);
  });

  it('share a pace: many at once take as long as they are large together', async () => {
    const drain = new BodyDrain();
    const began = performance.now();
    const all = await Promise.all(Array.from({ length: 4 }, () => drained(drain, MIB)));
    assert.ok(all.every(({ whole }) => whole));
    const took = performance.now() - began;
    assert.ok(took >= 900, `4 MiB took ${took} ms at 4 MiB a second`);
  });

  it('are given up after 32 MiB or when the client is gone', async () => {
    const drain = new BodyDrain();
    assert.equal((await drained(drain, 40 * MIB)).whole, false);
    const body = new PassThrough();
    const whole = drain.drain(body as unknown as IncomingMessage);
    body.destroy();
    assert.equal(await whole, false);
  });
});
