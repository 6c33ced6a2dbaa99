import type { Connections, Statement } from '../db/pool.js';
import type { Log } from '../observability/log.js';
import type { ClaimKind } from './claim-kind.js';

interface LostClaim {
  readonly leaseIds: readonly string[];
  readonly processId: number;
}

type Repair = Pick<ClaimKind<unknown>, 'giveBack'>;

const EVERY_MS = 500;

/**
 * Claims whose answer was lost. Their backend may still be running and commit later, so what they may have leased is given
 * back again and again until the backend is gone, and once more after that.
 */
export class LostClaims {
  private closed = false;

  constructor(
    private readonly connections: Connections,
    private readonly log: Log,
  ) {}

  add(kind: Repair, claim: LostClaim): void {
    this.log.warn(
      { leases: claim.leaseIds.length },
      'the answer to a claim was lost; giving back what it may have leased',
    );
    void this.repair(kind, claim);
  }

  close(): void {
    this.closed = true;
  }

  private async repair(kind: Repair, claim: LostClaim): Promise<void> {
    for (let gone = false; !this.closed;) {
      try {
        const wasGone = gone;
        [{ gone }] = (await this.connections.query<{ gone: boolean }>(GONE, [claim.processId])) as [{ gone: boolean }];
        await kind.giveBack(this.connections, claim.leaseIds);
        if (wasGone) return;
      } catch (error) {
        this.log.debug({ err: error }, 'giving back a lost claim will be tried again');
      }
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
  }
}

// A process id used again by another connection of ours only prolongs the repair.
const GONE: Statement = {
  name: 'claim-backend-gone',
  text: `select not exists (
  select from pg_stat_activity where pid = $1::int and application_name = 'stint claim') as gone`,
};
