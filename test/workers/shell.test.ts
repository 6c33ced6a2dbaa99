import { exampleFile, proveWorker } from './scenario.js';

proveWorker({
  name: 'shell worker',
  needs: ['bash', 'curl', 'jq'],
  processes: 4,
  command: (connection) => [
    'bash',
    exampleFile('worker-shell/worker.sh'),
    ...connection,
    exampleFile('worker-shell/handler.sh'),
  ],
});
