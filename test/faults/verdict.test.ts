import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { check } from '../../loadtest/faults/check.js';
import type { BoundProbe, Evidence } from '../../loadtest/faults/evidence.js';
import { UNBOUNDED } from '../../loadtest/faults/queues.js';
import {
  asked,
  DAY,
  delivery,
  JOB,
  looked,
  nackedTwice,
  OTHER,
  SECOND,
  settling,
  sound,
  storm,
} from './made-evidence.js';

describe('the verdict on a run', () => {
  it('finds nothing in a job that expired, was leased again and was acked', () => {
    assert.deepEqual(check(sound()), []);
  });

  const breached: Readonly<Record<string, (evidence: Evidence) => Evidence>> = {
    'a job that was accepted exists': (sane) => ({
      ...sane,
      offers: [{ source: 'producer-0', queue: 'orders', keys: [null], ids: [OTHER] }],
    }),
    'a batch is accepted whole': (sane) => ({
      ...sane,
      offers: [{ source: 'producer-0', queue: 'orders', keys: [null, null], ids: [JOB] }],
    }),
    'a key makes one job': (sane) => ({
      ...sane,
      jobs: [JOB, OTHER].map((id) => ({ ...sane.jobs[0]!, id, key: 'k' })),
    }),
    'a key is answered with one job': (sane) => ({
      ...sane,
      offers: [JOB, OTHER].map((id) => ({ source: 'producer-0', queue: 'orders', keys: ['k'], ids: [id] })),
      jobs: [JOB, OTHER].map((id) => ({ ...sane.jobs[0]!, id })),
    }),
    'every job comes to its end when the faults are over': (sane) => ({
      ...sane,
      jobs: [{ ...sane.jobs[0]!, state: 'leased' }],
    }),
    'clients are refused with 503 only': (sane) => ({
      ...sane,
      refusals: [{ source: 'worker-0', at: 1, path: '/v1/lease', status: 500, detail: 'INTERNAL' }],
    }),
    'an epoch of a job is leased to one worker, once': (sane) => ({
      ...sane,
      deliveries: [...sane.deliveries, { ...delivery(2), source: 'worker-2' }],
    }),
    'a job is acked under one lease': (sane) => ({
      ...sane,
      settlings: [...sane.settlings, settling({ verb: 'ack', epoch: 1, begun: 3, outcome: 'OK' })],
    }),
    'a lease is settled once': (sane) => ({
      ...sane,
      settlings: [...sane.settlings, settling({ verb: 'ack', epoch: 2, begun: 13, outcome: 'OK' })],
    }),
    'no lease token but the newest is accepted': (sane) => ({
      ...sane,
      settlings: [...sane.settlings, settling({ verb: 'heartbeat', epoch: 1, begun: 11, outcome: 'OK' })],
    }),
    'a settle that is answered is done, and lasts': (sane) => ({
      ...sane,
      settlings: [...sane.settlings, settling({ verb: 'nack', epoch: 1, begun: 3, outcome: 'ALREADY_SETTLED' })],
    }),
    'a worker is told of its lease what the contract has for it': (sane) => ({
      ...sane,
      settlings: [settling({ verb: 'heartbeat', epoch: 2, begun: 12, outcome: 'NOT_FOUND' })],
    }),
    'attempts add up': (sane) => ({ ...sane, jobs: [{ ...sane.jobs[0]!, attempt: 3 }] }),
    'the epoch of a job never falls': (sane) => ({ ...sane, deliveries: [...sane.deliveries, delivery(3)] }),
    'a lease is ended by its own worker': (sane) => ({
      ...sane,
      attempts: [{ ...sane.attempts[0]!, outcome: 'nacked', endedAt: delivery(1).expiresAt - 1 }],
    }),
    'a lease lasts until the instant its worker was told': (sane) => ({
      ...sane,
      attempts: [{ ...sane.attempts[0]!, endedAt: delivery(1).expiresAt - 1_000 }],
    }),
    'a lease that has run out is not nacked or released': (sane) => ({
      ...sane,
      settlings: [...sane.settlings, settling({ verb: 'release', epoch: 1, begun: 4, outcome: 'LEASE_LOST' })],
      attempts: [{ ...sane.attempts[0]!, outcome: 'released' }],
      jobs: [{ ...sane.jobs[0]!, attempt: 1 }],
    }),
    'a released job can be leased at once': (sane) => ({
      ...sane,
      probes: [{ promise: 'release', begun: 100 * SECOND, at: 101 * SECOND + 1, answered: true }],
    }),
    'a job that came for a caller who is gone is leased by the next at once': (sane) => ({
      ...sane,
      probes: [{ promise: 'gone', begun: 100 * SECOND, at: 100 * SECOND + 1, answered: false }],
    }),
    'a job that is enqueued is leased at once by who waits for it': (sane) => ({
      ...sane,
      probes: [{ promise: 'visible', begun: 100 * SECOND, at: 102 * SECOND, answered: true }],
    }),
    'a long poll is answered when its service shuts down': (sane) => ({
      ...sane,
      probes: [{ promise: 'parked-B', begun: 90 * SECOND, at: 105 * SECOND, answered: true }],
      windows: [{ kind: 'restart-service', target: 1, begun: 100 * SECOND, ended: 101 * SECOND }],
    }),
    'a queue never has more live leases than its bound': (sane) => ({
      ...sane,
      boundProbes: [looked({ live: [DAY, DAY + 1, DAY + 2] })],
    }),
    'a queue is not stuck at its bound': (sane) => ({
      ...sane,
      boundProbes: [looked({}), looked({ seconds: 11 })],
    }),
    'another tenant is told NOT_FOUND, whatever it asks for': (sane) => ({
      ...sane,
      intrusions: [...sane.intrusions, asked(200, ['NOT_FOUND', 'LEASE_LOST'])],
    }),
    'a job is acked and cancelled by its own tenant only': (sane) => ({ ...sane, settlings: [] }),
    'a nacked job does not come back earlier than asked': (sane) => ({
      ...sane,
      ...nackedTwice({ waited: 199_000 }),
    }),
    'no retry is due earlier than asked': (sane) => ({ ...sane, ...storm((n) => 1_999_000 + n * 20_000) }),
    'no retry is due later than asked': (sane) => ({ ...sane, ...storm((n) => 2_000_000 + n * 30_000) }),
    'jobs that are nacked together are due spread out': (sane) => ({ ...sane, ...storm((n) => 2_000_000 + n * 1_000) }),
  };

  for (const [rule, spoil] of Object.entries(breached)) {
    it(`finds a breach of: ${rule}`, () => {
      const rules = check(spoil(sound())).map((breach) => breach.rule);
      assert.ok(rules.includes(rule), `found: ${rules.join('; ')}`);
    });
  }

  it('puts what takes the fewest facts to show first', () => {
    const all = check(Object.values(breached).reduce((evidence, spoil) => spoil(evidence), sound()));
    const sizes = all.map(({ facts }) => facts.length);
    assert.ok(new Set(sizes).size > 1);
    assert.deepEqual(
      sizes,
      sizes.toSorted((a, b) => a - b),
    );
  });

  it('holds leases to the bound at their start, not to one that was lowered while they ran', () => {
    const live = [DAY, DAY, DAY, DAY];
    const boundChanges = [
      { at: DAY - 60 * SECOND, bound: 4 },
      { at: DAY + SECOND, bound: 2 },
    ];
    const rulesFor = (given: Partial<BoundProbe>): string[] =>
      check({ ...sound(), boundChanges, boundProbes: [looked({ bound: 2, ...given })] }).map(({ rule }) => rule);
    assert.deepEqual(rulesFor({ live }), []);
    assert.deepEqual(rulesFor({ live: [...live, DAY + 5 * SECOND] }).length, 1);
    assert.deepEqual(rulesFor({ live: [...live, DAY] }).length, 1);
    assert.deepEqual(rulesFor({ live: [DAY + 5 * SECOND, DAY + 5 * SECOND] }), []);
  });

  it('gives a bound on a queue that had none as long as an instance takes that did not hear of it', () => {
    const boundChanges = [
      { at: DAY - 60 * SECOND, bound: UNBOUNDED },
      { at: DAY, bound: 1 },
    ];
    const rulesFor = (leasedAt: number): string[] =>
      check({
        ...sound(),
        boundChanges,
        boundProbes: [looked({ seconds: 20, bound: 1, live: [leasedAt, leasedAt] })],
      }).map(({ rule }) => rule);
    assert.deepEqual(rulesFor(DAY + 9 * SECOND), []);
    assert.deepEqual(rulesFor(DAY + 13 * SECOND), ['a queue never has more live leases than its bound']);
  });

  it('takes a queue for stuck only while it has room, and jobs that nobody leases, and no fault is near', () => {
    const rulesFor = (boundProbes: BoundProbe[], windows: Evidence['windows'] = []): string[] =>
      check({ ...sound(), boundProbes, windows }).map(({ rule }) => rule);
    const idle = [looked({}), looked({ seconds: 6 }), looked({ seconds: 11 })];
    assert.equal(rulesFor(idle).length, 1);
    assert.deepEqual(rulesFor(idle.with(1, looked({ seconds: 6, waiting: 0 }))), []);
    assert.deepEqual(rulesFor(idle.with(1, looked({ seconds: 6, live: [DAY, DAY] }))), []);
    assert.deepEqual(rulesFor(idle.with(1, looked({ seconds: 6, live: [DAY + 5 * SECOND] }))), []);
    const begun = 100 * SECOND;
    assert.deepEqual(rulesFor(idle, [{ kind: 'kill-service', target: 0, begun, ended: begun + 2 * SECOND }]), []);
    const after = { kind: 'restart-service', target: 1, begun: begun + 10.5 * SECOND, ended: begun + 15 * SECOND };
    assert.equal(rulesFor(idle, [after]).length, 1);
  });

  for (const [status, told, isFine] of [
    [404, ['NOT_FOUND'], true],
    [200, ['NOT_FOUND'], true],
    [503, ['UNAVAILABLE'], true],
    [0, [], true],
    [200, [], false],
    [200, ['OK'], false],
    [409, ['LEASE_LOST'], false],
    [409, ['CONFLICT'], false],
    [500, ['INTERNAL'], false],
  ] as const) {
    it(`takes ${status} ${told.join()} to another tenant for ${isFine ? 'a refusal' : 'a breach'}`, () => {
      assert.equal(check({ ...sound(), intrusions: [asked(status, told)] }).length, isFine ? 0 : 1);
    });
  }

  it('finds it when another tenant has cancelled a job', () => {
    const sane = sound();
    const jobs = [{ ...sane.jobs[0]!, state: 'cancelled', ended: 'cancelled', attempt: 1 }];
    const rules = check({ ...sane, jobs, settlings: [] }).map(({ rule }) => rule);
    assert.deepEqual(rules, ['a job is acked and cancelled by its own tenant only']);
  });

  it('finds nothing in retries that come as their policy has it', () => {
    assert.deepEqual(check({ ...sound(), ...nackedTwice({ waited: 200_000 }) }), []);
    const even = check({ ...sound(), ...storm((n) => 2_000_000 + n * 20_000) });
    assert.deepEqual(
      even.map(({ rule }) => rule).filter((rule) => /nack|retry/.test(rule)),
      [],
    );
  });

  it('does not hold what a fault was in the way of against the service', () => {
    const probes = [{ promise: 'release', begun: 100 * SECOND, at: 103 * SECOND, answered: false }];
    const windows = [{ kind: 'kill-postgres', target: 0, begun: 90 * SECOND, ended: 91 * SECOND }];
    assert.equal(check({ ...sound(), probes, windows, recovery: 10 * SECOND }).length, 0);
    assert.equal(check({ ...sound(), probes, windows, recovery: 5 * SECOND }).length, 1);
  });

  it('lets a heartbeat be undone by a crash, and by nothing else', () => {
    const sane = sound();
    const answer = { outcome: 'OK', expiresAt: sane.attempts[0]!.endedAt + SECOND, at: 4 };
    const settlings = [
      ...sane.settlings,
      { ...settling({ verb: 'heartbeat', epoch: 1, begun: 3, outcome: 'OK' }), answer },
    ];
    const windows = [{ kind: 'kill-postgres', target: 0, begun: 5, ended: 6 }];
    assert.equal(check({ ...sane, settlings }).length, 1);
    assert.equal(check({ ...sane, settlings, windows }).length, 0);
  });
});
