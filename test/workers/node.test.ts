import { fileURLToPath } from 'node:url';
import { proveWorker } from './scenario.js';

const WORKER = fileURLToPath(new URL('../../examples/worker-node/worker.js', import.meta.url));

proveWorker({
  name: 'TypeScript worker over HTTP',
  needs: [],
  slots: 10,
  command: (connection) => [process.execPath, WORKER, ...connection],
});
