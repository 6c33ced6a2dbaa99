import { ServiceError } from '../errors.js';
import type { Admission, RateState } from './admission.js';
import type { Eventual } from './eventual.js';
import type { Caller, Operation } from './operation.js';
import type { CredentialMemory } from './presented.js';

/** What is to be admitted. */
export type Admitted = Pick<Operation, 'name' | 'scopes' | 'http' | 'storesJobs'>;

/** What of a call tells who calls. */
export interface Approach {
  readonly requestId: string;
  /** Where it came from. */
  readonly address: string;
  /** The `Authorization` header or metadata as it came. */
  readonly authorization: string | undefined;
  /** Of the connection it came over. */
  readonly memory: CredentialMemory;
  /** A call that a stream makes for its worker: the stream itself was counted. */
  readonly withinStream?: boolean;
  /** Told where the caller stands, when it has a limit. */
  rate?: RateState | undefined;
}

export interface AdmitParts {
  /** Throws UNAUTHENTICATED for a credential that is missing, unknown, expired or revoked. */
  readonly authenticate: (authorization: string | undefined, memory: CredentialMemory) => Eventual<Caller>;
  readonly admission: Admission;
  readonly refused: Refused;
}

/** Told of calls that are refused for want of a right. */
export type Refused = (operation: Admitted, caller: Caller, approach: Approach) => void;

export type Admit = (operation: Admitted, approach: Approach) => Eventual<Caller>;

/** The first half of the door: who calls, whether it is within its rate, and whether it may. */
export function createAdmit({ authenticate, admission, refused }: AdmitParts): Admit {
  function admitted(operation: Admitted, approach: Approach, caller: Caller): Caller {
    if (approach.withinStream !== true) admission.request(caller, approach);
    const missing = missingRight(operation, caller);
    if (missing !== undefined) {
      refused(operation, caller, approach);
      throw new ServiceError('PERMISSION_DENIED', missing);
    }
    if (operation.storesJobs === true) admission.mayStore(caller);
    return caller;
  }

  return function admit(operation, approach) {
    const known = authenticate(approach.authorization, approach.memory);
    return known instanceof Promise
      ? known.then((caller) => admitted(operation, approach, caller))
      : admitted(operation, approach, known);
  };
}

/** Why the caller may not, in words. */
function missingRight(operation: Admitted, caller: Caller): string | undefined {
  const forAdmin = operation.scopes.includes('admin');
  if (!forAdmin && caller.tenant === undefined) return 'an admin key belongs to no tenant: use a key of the tenant';
  if (operation.scopes.some((scope) => holds(caller, scope))) return undefined;
  return `this needs the scope ${operation.scopes.join(' or ')}`;
}

function holds(caller: Caller, scope: Operation['scopes'][number]): boolean {
  if (scope === 'admin' && caller.tenant !== undefined) return false;
  return caller.scopes.has(scope) || (scope === 'read' && caller.scopes.has('manage'));
}
