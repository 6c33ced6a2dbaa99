import type { Admission } from '../core/admission.js';
import type { Connections } from '../db/pool.js';
import { Allowances } from './allowances.js';
import { type Authenticate, createAuthenticate } from './authenticate.js';
import { CallerWatch } from './caller-watch.js';
import type { JwtIssuer } from './jwt-issuer.js';
import { KnownKeys } from './known-keys.js';
import { KnownTenants } from './known-tenants.js';
import { fileRootKeys, fixedRootKeys } from './root-keys.js';
import { Tokens } from './tokens.js';

export interface CallersParts {
  readonly rootKeys: readonly string[];
  /** In place of `rootKeys`. */
  readonly rootKeyFile: string | undefined;
  readonly issuers: readonly JwtIssuer[];
  /** How many calls of one tenant may wait on this instance. */
  readonly mostParked: number;
  readonly connections: Connections;
  readonly onTrouble: (what: string, error: unknown) => void;
}

/** Everything that is known of callers: who they are, what they may still do, and whether they still may. */
export interface Callers {
  readonly authenticate: Authenticate;
  readonly admission: Admission;
  readonly keys: KnownKeys;
  readonly allowances: Allowances;
  readonly watch: CallerWatch;
  /** Keys or tenants have changed: everybody is looked at anew. */
  changed(): void;
}

/**
 * Puts them together.
 *
 * @throws Error in plain words when the file of root keys cannot be read
 */
export function createCallers(parts: CallersParts): Callers {
  const { connections, onTrouble, rootKeyFile } = parts;
  const keys = new KnownKeys(connections);
  const tenants = new KnownTenants(connections);
  const tokens = new Tokens({
    issuers: parts.issuers,
    onTrouble: (issuer, error) => onTrouble(`the keys of the issuer ${issuer} cannot be had`, error),
  });
  const rootHashes =
    rootKeyFile === undefined
      ? fixedRootKeys(parts.rootKeys)
      : fileRootKeys(rootKeyFile, (error) => onTrouble('the file of root keys cannot be read: the keys stay', error));
  const watch = new CallerWatch(keys, tenants);
  const allowances = new Allowances({ watch, mostParked: parts.mostParked });
  return {
    authenticate: createAuthenticate({ keys, tenants, tokens, rootHashes }),
    admission: allowances,
    keys,
    allowances,
    watch,
    changed: () => {
      keys.forget();
      tenants.forget();
      watch.checkSoon();
    },
  };
}
