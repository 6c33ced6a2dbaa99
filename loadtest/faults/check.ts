import type { Breach } from './breach.js';
import type { Evidence } from './evidence.js';
import { attemptsOf } from './rules-attempts.js';
import { boundsOf } from './rules-bounds.js';
import { jobsOf } from './rules-jobs.js';
import { leasesOf } from './rules-leases.js';
import { promisesOf } from './rules-promises.js';
import { retriesOf } from './rules-retries.js';
import { tenantsOf } from './rules-tenants.js';

const RULES = [jobsOf, leasesOf, attemptsOf, promisesOf, boundsOf, tenantsOf, retriesOf];

/** Holds what the processes were told against the database and the rules; smallest first. */
export function check(evidence: Evidence): Breach[] {
  return smallestFirst(RULES.flatMap((rules) => rules(evidence)));
}

/** Those that take the fewest facts to show come first. */
export function smallestFirst(breaches: readonly Breach[]): Breach[] {
  return [...breaches].sort((a, b) => a.facts.length - b.facts.length);
}
