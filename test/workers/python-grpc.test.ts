import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { exampleFile, proveWorker, type Worker } from './scenario.js';
import { proveStream } from './stream.js';

const worker: Worker = {
  name: 'Python worker over the gRPC stream',
  transport: 'grpc',
  needs: ['python3'],
  command: (connection) => ['python3', exampleFile('worker-python/worker_grpc.py'), ...connection],
};

if (spawnSync('python3', ['-c', 'import grpc, grpc_tools']).status === 0) {
  proveWorker(worker);
  proveStream(worker, false);
} else {
  test(
    `the ${worker.name} passes the common scenario`,
    { skip: 'grpcio and grpcio-tools not installed for python3' },
    () => undefined,
  );
}
