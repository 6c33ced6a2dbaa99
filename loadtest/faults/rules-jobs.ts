import type { Breach } from './breach.js';
import type { Evidence, Offer, Refusal } from './evidence.js';
import { grouped } from './grouped.js';

const ENDS: ReadonlySet<string> = new Set(['completed', 'dead', 'cancelled']);

/** Nothing accepted is lost, a key makes one job, everything comes to an end, and clients see no fault of the service's own. */
export function jobsOf(evidence: Evidence): Breach[] {
  return [...lost(evidence), ...keys(evidence), ...unfinished(evidence), ...answers(evidence.refusals)];
}

function lost({ offers, jobs }: Evidence): Breach[] {
  const stored = new Set(jobs.map(({ id }) => id));
  return offers.flatMap(({ ids, source, queue, keys }) => {
    const missing = (ids ?? []).filter((id) => !stored.has(id));
    if (ids !== undefined && ids.length !== keys.length) {
      const fact = `${source} offered ${keys.length} jobs and was told of ${ids.length}`;
      return [{ rule: 'a batch is accepted whole', about: queue, facts: [fact] }];
    }
    return missing.map((id) => ({
      rule: 'a job that was accepted exists',
      about: id,
      facts: [
        `${source} was told that it is in ${queue}, with ${ids!.length - 1} others; the database has no such job`,
      ],
    }));
  });
}

function keys({ offers, jobs }: Evidence): Breach[] {
  const told = grouped(offers.flatMap(keyedIds), ({ name }) => name);
  const stored = grouped(
    jobs.filter(({ key }) => key !== null),
    ({ queue, key }) => `${queue} ${key!}`,
  );
  const doubled = [...stored].filter(([, rows]) => rows.length > 1);
  const differing = [...told].filter(([, answers]) => new Set(answers.map(({ id }) => id)).size > 1);
  return [
    ...doubled.map(([name, rows]) => ({
      rule: 'a key makes one job',
      about: name,
      facts: rows.map(({ id, state }) => `job ${id} is ${state}`),
    })),
    ...differing.map(([name, answers]) => ({
      rule: 'a key is answered with one job',
      about: name,
      facts: answers.map(({ id, source }) => `${source} was told ${id}`),
    })),
  ];
}

function keyedIds({ source, queue, keys: given, ids }: Offer): { name: string; id: string; source: string }[] {
  if (ids === undefined) return [];
  return given.flatMap((key, index) => (key === null ? [] : [{ name: `${queue} ${key}`, id: ids[index]!, source }]));
}

function unfinished({ jobs }: Evidence): Breach[] {
  return jobs
    .filter(({ state }) => !ENDS.has(state))
    .map(({ id, state, queue }) => ({
      rule: 'every job comes to its end when the faults are over',
      about: id,
      facts: [`still ${state} in ${queue}`],
    }));
}

/** 503 is what a client is told while something is away; it is also what a network's failure (0) looks like. */
function answers(refusals: readonly Refusal[]): Breach[] {
  return refusals
    .filter(({ status }) => status !== 0 && status !== 503)
    .map(({ source, status, path, detail }) => ({
      rule: 'clients are refused with 503 only',
      about: `${status} ${path}`,
      facts: [`${source} was told: ${detail}`],
    }));
}
