import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MetricType } from './stand-ins/stage.js';
import { judge } from './thresholds.js';

const METRICS = new Map<string, MetricType>([
  ['checks', 'rate'],
  ['wait', 'trend'],
  ['dropped_iterations', 'counter'],
]);
const SAMPLES = [
  { metric: 'checks', value: 1, tags: { tenant: 'quiet' } },
  { metric: 'checks', value: 0, tags: { tenant: 'loud' } },
  ...[10, 20, 30, 40].map((value) => ({ metric: 'wait', value, tags: { op: 'lease' } })),
];

const held = (thresholds: Record<string, string[]>) =>
  judge(thresholds, METRICS, SAMPLES).map(({ value, isHeld }) => [value, isHeld]);

test('a threshold is judged by what has its tags', () => {
  assert.deepEqual(held({ checks: ['rate>0.4', 'rate==1'] }), [
    [0.5, true],
    [0.5, false],
  ]);
  assert.deepEqual(held({ 'checks{tenant:quiet}': ['rate==1'] }), [[1, true]]);
  assert.deepEqual(held({ 'wait{op:lease}': ['p(50)<25', 'p(99)<40', 'max<=40', 'avg>=25'] }), [
    [20, true],
    [40, false],
    [40, true],
    [25, true],
  ]);
  assert.deepEqual(held({ dropped_iterations: ['count<1'] }), [[0, true]]);
});

test('a threshold on what is never measured is refused, and so is one that says nothing', () => {
  assert.throws(() => held({ 'wait{op:ack}': ['p(95)<1'] }), /^Error: nothing was measured for wait\{op:ack\}/);
  assert.throws(() => held({ waits: ['p(95)<1'] }), /^Error: there is no metric waits/);
  assert.throws(() => held({ checks: ['p(95)<1'] }), /^Error: not a threshold of a rate/);
  assert.throws(() => held({ wait: ['p95<1'] }), /^Error: not a threshold of a trend/);
  assert.throws(() => held({ 'wait{op=lease}': ['p(95)<1'] }), /^Error: not a threshold's name/);
});
