import type { Breach } from './breach.js';
import type { Evidence, FaultWindow, Probe } from './evidence.js';

/** What comes back at once does so within the promised second (`promptly`), while no fault is at work and its recovery is over. */
export function promisesOf(evidence: Evidence): Breach[] {
  return [...probes(evidence), ...shutdowns(evidence)];
}

const PROMISES: Readonly<Record<string, string>> = {
  release: 'a released job can be leased at once',
  gone: 'a job that came for a caller who is gone is leased by the next at once',
  visible: 'a job that is enqueued is leased at once by who waits for it',
};

/** The probes that count: those with no fault at work. */
export function calmProbes(evidence: Evidence): Probe[] {
  return evidence.probes.filter((probe) => probe.promise in PROMISES && isCalm(evidence, probe));
}

function probes(evidence: Evidence): Breach[] {
  return calmProbes(evidence)
    .filter(({ begun, at, answered }) => !answered || at - begun > evidence.promptly)
    .map(({ promise, begun, at, answered }) => ({
      rule: PROMISES[promise]!,
      about: promise,
      facts: [`from ${begun} on: ${answered ? 'after' : 'not within'} ${Math.round((at - begun) / 1_000)} ms`],
    }));
}

/** At a SIGTERM each long poll is answered. */
function shutdowns(evidence: Evidence): Breach[] {
  return evidence.windows
    .filter(({ kind }) => kind === 'restart-service')
    .filter((restart) => isCalm(evidence, { begun: restart.begun, at: restart.begun + evidence.promptly }, restart))
    .flatMap((restart) => {
      const parked = evidence.probes.find((probe) => hangsAt(probe, restart));
      if (parked === undefined || (parked.answered && parked.at - restart.begun <= evidence.promptly)) return [];
      const took = Math.round((parked.at - restart.begun) / 1_000);
      const fact = `${took} ms after the SIGTERM it was ${parked.answered ? 'answered' : 'cut off'}`;
      return [{ rule: 'a long poll is answered when its service shuts down', about: parked.promise, facts: [fact] }];
    });
}

function hangsAt({ promise, begun, at }: Probe, restart: FaultWindow): boolean {
  return promise === `parked-${'AB'[restart.target]!}` && begun < restart.begun && at > restart.begun;
}

/** Whether no fault but `own`, nor the recovery from one, overlaps that time. */
function isCalm(
  { windows, recovery }: Evidence,
  { begun, at }: Pick<Probe, 'begun' | 'at'>,
  own?: FaultWindow,
): boolean {
  return !windows.some((window) => window !== own && window.begun < at && window.ended + recovery > begun);
}
