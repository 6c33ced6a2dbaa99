import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before } from 'node:test';
import { exampleFile, proveWorker, type Worker } from './scenario.js';
import { proveStream } from './stream.js';

const withGo = spawnSync('go', ['version']).error === undefined;
const directory = mkdtempSync(path.join(tmpdir(), 'stint-worker-go-'));
const program = path.join(directory, 'worker-go');

const worker: Worker = {
  name: 'Go worker over the gRPC stream',
  transport: 'grpc',
  needs: ['go'],
  command: (connection) => [program, ...connection],
};

before(() => {
  if (!withGo) return;
  const built = spawnSync('go', ['build', '-o', program, '.'], { cwd: exampleFile('worker-go'), encoding: 'utf8' });
  assert.equal(built.status, 0, built.stderr);
});

after(() => rmSync(directory, { recursive: true, force: true }));

proveWorker(worker);
proveStream(worker, !withGo && 'go not installed');
