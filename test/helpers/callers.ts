import { Connections } from '../../src/db/pool.js';
import { type Callers, createCallers } from '../../src/tenants/callers.js';

/** What tasks need of callers, of whom there are none. */
export function noCallers(url: string): Callers {
  const connections = new Connections({
    url,
    name: 'callers',
    size: 1,
    settings: {},
    statementTimeout: 10_000,
    onCall: () => undefined,
    onLost: () => undefined,
  });
  return createCallers({
    rootKeys: [],
    rootKeyFile: undefined,
    issuers: [],
    mostParked: 1_000,
    connections,
    onTrouble: () => undefined,
  });
}
