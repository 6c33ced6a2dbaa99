import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { createMetrics } from '../../src/observability/metrics.js';
import { CHART, golden } from './chart.js';
import { dashboards, expressionsOf, rulesOf } from './expressions.js';

const RELAY_PAGE = readFileSync(path.join(CHART, '../../docs/relay.md'), 'utf8');

async function knownNames(): Promise<Set<string>> {
  const { body } = await createMetrics().render();
  const types = [...body.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => ({ name: name!, type }));
  const relay = [...RELAY_PAGE.matchAll(/^\| `(stint_relay_\w+)` \|/gm)].map(([, name]) => name!);
  const parts = (name: string): string[] => [`${name}_bucket`, `${name}_sum`, `${name}_count`];
  return new Set([...relay, ...types.flatMap(({ name, type }) => (type === 'histogram' ? parts(name) : [name]))]);
}

test('every dashboard is one of Grafana, with panels that do not overlap', () => {
  assert.ok(dashboards().length > 0);
  for (const { name, dashboard } of dashboards()) {
    assert.equal(typeof dashboard.title, 'string', name);
    assert.match(dashboard.uid, /^[\w-]{1,40}$/, name);
    const taken = new Set<string>();
    for (const { title, gridPos } of dashboard.panels) {
      assert.ok(gridPos.x + gridPos.w <= 24, `${name}: ${title} is beyond the right edge`);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
          assert.ok(!taken.has(`${x},${y}`), `${name}: ${title} lies over another`);
          taken.add(`${x},${y}`);
        }
      }
    }
    const ids = dashboard.panels.map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length, name);
  }
});

test('dashboards and alerts ask for metrics that there are', async () => {
  const known = await knownNames();
  for (const { from, expression } of expressionsOf()) {
    for (const [name] of expression.matchAll(/\bstint_\w+/g)) {
      assert.ok(known.has(name), `${from} asks for ${name}, which there is not`);
    }
  }
});

test('the dashboard of the service shows every metric of its own', async () => {
  const shown = dashboards()
    .flatMap(({ expressions }) => expressions)
    .join('\n');
  for (const name of await knownNames()) {
    if (/^stint_(process|nodejs|relay)_/.test(name)) continue;
    const family = name.replace(/_(bucket|sum|count)$/, '');
    assert.ok(shown.includes(family), `no panel shows ${family}`);
  }
});

test('there is an alert for everything that the manuals call worth one', () => {
  const text = rulesOf(golden('monitoring')).join('\n');
  for (const name of [
    'kube_pod_status_ready',
    'stint_queue_oldest_ready_seconds',
    'stint_notifications_healthy',
    'stint_task_last_success_timestamp_seconds',
    'stint_jobs_total{event="dead"',
    'stint_invariant_breaches',
    'stint_relay_lag_seconds',
    'stint_relay_parked_rows',
    'stint_relay_reachable',
  ]) {
    assert.ok(text.includes(name), `no alert looks at ${name}`);
  }
});

test('a service without chores of its own has no alert on them', () => {
  const text = rulesOf(golden('sleeping')).join('\n');
  assert.ok(text.includes('stint_invariant_breaches'));
  assert.doesNotMatch(text, /stint_task_|stint_notifications_/);
});
