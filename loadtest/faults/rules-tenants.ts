import { parseLeaseToken } from '../../src/jobs/lease-token.js';
import type { Breach } from './breach.js';
import type { Evidence, Intrusion } from './evidence.js';

/** Whoever knows a job's id or its lease token, and is another tenant, learns nothing and changes nothing. */
export function tenantsOf(evidence: Evidence): Breach[] {
  return [...evidence.intrusions.filter((intrusion) => !isRefused(intrusion)).map(learned), ...touched(evidence)];
}

/** 503 and no answer (0) are what any client is told while something is away. */
export function isRefused({ status, told }: Intrusion): boolean {
  if (status === 0 || status === 503) return true;
  return (status === 404 || status === 200) && told.length > 0 && told.every((word) => word === 'NOT_FOUND');
}

function learned({ id, asked, at, status, told }: Intrusion): Breach {
  const fact = `at ${at} another tenant asked for ${asked} and was told ${[status, ...told].join(' ')}`;
  return { rule: 'another tenant is told NOT_FOUND, whatever it asks for', about: id, facts: [fact] };
}

/** Nobody of its own tenant cancels a job of the load, and its workers write down before they ask what they ack. */
function touched({ jobs, settlings }: Evidence): Breach[] {
  const acked = new Set(
    settlings.filter(({ verb }) => verb === 'ack').map(({ token }) => parseLeaseToken(token)?.leaseId),
  );
  return jobs
    .filter(({ state, leaseId }) => state === 'cancelled' || (state === 'completed' && !acked.has(leaseId ?? '')))
    .map(({ id, state, epoch }) => ({
      rule: 'a job is acked and cancelled by its own tenant only',
      about: id,
      facts: [`it is ${state} in epoch ${epoch}, and nobody of its tenant has asked for that`],
    }));
}
