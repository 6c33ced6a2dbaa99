import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { fileRootKeys } from '../../src/tenants/root-keys.js';
import { hashSecret } from '../../src/tenants/secret.js';

const [first, second] = [randomBytes(20).toString('hex'), randomBytes(20).toString('hex')];

describe('root keys from a file', () => {
  let directory: string;
  let file: string;

  beforeEach(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'stint-root-keys-'));
    file = path.join(directory, 'keys');
    await writeFile(file, `${first}\n`);
  });
  afterEach(() => rm(directory, { recursive: true }));

  test('stay while the file holds something else, nothing, or is away, which is said once', async (t) => {
    const began = Math.ceil(performance.now());
    let passed = 0;
    t.mock.method(performance, 'now', () => began + passed);
    const troubles: unknown[] = [];
    const keys = fileRootKeys(file, (error) => troubles.push(error));
    const look = (): readonly Buffer[] => {
      passed += 1_000;
      return keys();
    };
    const wrong = ['', '\n\n', 'short\n', `${second}\nwith a space in it, ${second}\n`, `${second}\nä${second}\n`];
    for (const content of [...wrong, `${second} ${second}\n`, undefined]) {
      if (content === undefined) await rm(file);
      else await writeFile(file, content);
      assert.deepEqual(look(), [hashSecret(first)], content);
    }
    assert.equal(troubles.length, 1);
    await writeFile(file, `${second}\r\n\n${first}`);
    assert.deepEqual(look(), [hashSecret(second), hashSecret(first)]);
    await writeFile(file, '');
    look();
    assert.equal(troubles.length, 2);
  });

  test('are looked at once a second at most, and read again only when the file has changed', async (t) => {
    const began = Math.ceil(performance.now());
    let passed = 0;
    t.mock.method(performance, 'now', () => began + passed);
    const keys = fileRootKeys(file, () => assert.fail('there is no trouble'));
    const before = keys();
    passed = 1_000;
    assert.equal(keys(), before);
    await writeFile(file, `${second}\n${first}\n`);
    passed = 1_999;
    assert.equal(keys(), before);
    passed = 2_000;
    assert.deepEqual(keys(), [hashSecret(second), hashSecret(first)]);
  });
});
