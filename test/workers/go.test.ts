import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before } from 'node:test';
import { exampleFile, type Worker } from './room.js';
import { proveWorker } from './scenario.js';
import { proveStream } from './stream.js';
import { proveTls } from './tls.js';

const withGo = spawnSync('go', ['version']).error === undefined;
const directory = mkdtempSync(path.join(tmpdir(), 'stint-worker-go-'));
const program = path.join(directory, 'worker-go');

const worker: Worker = {
  name: 'Go worker over the gRPC stream',
  transport: 'grpc',
  needs: ['go'],
  slots: 10,
  command: (connection) => [program, ...connection],
};

before(() => {
  if (!withGo) return;
  const built = spawnSync('go', ['build', '-o', program, '.'], { cwd: exampleFile('worker-go'), encoding: 'utf8' });
  assert.equal(built.status, 0, built.stderr);
});

after(() => rmSync(directory, { recursive: true, force: true }));

proveWorker(worker);
const skip = !withGo && 'go not installed';
proveStream(worker, skip);
proveTls(
  worker,
  'SSL_CERT_FILE',
  process.platform === 'linux' ? skip : 'Go reads authorities from a file on Linux alone',
);
