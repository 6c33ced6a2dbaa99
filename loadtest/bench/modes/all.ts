import type { Table } from '../report.js';
import type { Rig } from '../rig.js';
import { backlog } from './backlog.js';
import { coalescing } from './coalescing.js';
import { dashboard } from './dashboard.js';
import { deep } from './deep.js';
import { horizon } from './horizon.js';
import { idle } from './idle.js';
import { instances } from './instances.js';
import { neighbours } from './neighbours.js';
import { notify } from './notify.js';
import { queues } from './queues.js';
import { retention } from './retention.js';
import { route } from './route.js';
import { sizing } from './sizing.js';
import { soak } from './soak.js';
import { stress } from './stress.js';
import { table } from './table.js';
import { work } from './work.js';

/** The modes by name, in the order in which `all` runs them. */
export const MODES: Readonly<Record<string, (rig: Rig) => Promise<Table>>> = {
  table,
  coalescing,
  route,
  backlog,
  queues,
  horizon,
  instances,
  idle,
  soak,
  sizing,
  notify,
  deep,
  retention,
  dashboard,
  stress,
  work,
  neighbours,
};
