import { exampleFile } from './room.js';
import { proveWorker } from './scenario.js';

proveWorker({
  name: 'Python worker over HTTP',
  needs: ['python3'],
  slots: 4,
  command: (connection) => ['python3', exampleFile('worker-python/worker.py'), ...connection],
});
