import { exampleFile } from './room.js';
import { proveWorker } from './scenario.js';

proveWorker({
  name: 'shell worker',
  needs: ['bash', 'curl', 'jq'],
  slots: 1,
  processes: 4,
  command: (connection) => [
    'bash',
    exampleFile('worker-shell/worker.sh'),
    ...connection,
    exampleFile('worker-shell/handler.sh'),
  ],
});
