import { exampleFile, proveWorker } from './scenario.js';

proveWorker({
  name: 'Python worker over HTTP',
  needs: ['python3'],
  command: (connection) => ['python3', exampleFile('worker-python/worker.py'), ...connection],
});
