import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { exampleFile, type Worker } from './room.js';
import { proveWorker } from './scenario.js';
import { proveStream } from './stream.js';
import { proveTls } from './tls.js';

const worker: Worker = {
  name: 'Python worker over the gRPC stream',
  transport: 'grpc',
  needs: ['python3'],
  slots: 4,
  command: (connection) => ['python3', exampleFile('worker-python/worker_grpc.py'), ...connection],
};

if (spawnSync('python3', ['-c', 'import grpc, grpc_tools']).status === 0) {
  proveWorker(worker);
  proveStream(worker, false);
  proveTls(worker, 'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH', false);
} else {
  test(
    `the ${worker.name} passes the common scenario`,
    { skip: 'grpcio and grpcio-tools not installed for python3' },
    () => undefined,
  );
}
