import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { createMetrics } from '../../src/observability/metrics.js';
import { CHART } from './chart.js';
import { dashboards, expressionsOf } from './expressions.js';

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

test('every panel says what it shows, and takes its source from the variable, so that it may be provisioned anywhere', () => {
  for (const { name, dashboard } of dashboards()) {
    assert.ok(
      dashboard.templating.list.some((each) => each.name === 'datasource' && each.type === 'datasource'),
      name,
    );
    for (const { type, title, description = '', datasource, targets = [] } of dashboard.panels) {
      if (type === 'row') continue;
      assert.match(description, /^[A-Z0-9].*\.$/, `${name}: ${title}`);
      for (const source of [datasource, ...targets.map((target) => target.datasource)])
        assert.equal(source?.uid, '${datasource}', `${name}: ${title}`);
    }
  }
});
