import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { CHART, golden } from './chart.js';
import { CASES_APART } from './alert-cases-apart.js';
import { SERVICE_CASES } from './alert-cases-service.js';
import { type Alert, alerts, ruleFiles } from './expressions.js';
import { buildValidator, HAS_GO } from './validator.js';

const ALERT_CASES = [...SERVICE_CASES, ...CASES_APART];
const RUNBOOK = readFileSync(path.join(CHART, '../../docs/runbook.md'), 'utf8');
const SCHEMA = JSON.parse(readFileSync(path.join(CHART, 'values.schema.json'), 'utf8'));
const VALUES = SCHEMA.properties.metrics.properties.prometheusRule.properties;
/** What the chart can put another threshold in place of. */
const ADJUSTABLE = / > [0-9.]+$/;

const names = alerts().map(({ alert }) => alert);

test('every alert says how bad it is, what is the matter, and where to read what to do', () => {
  for (const { alert, labels, annotations } of alerts()) {
    assert.match(alert, /^Stint[A-Z][A-Za-z]+$/);
    assert.match(labels['severity'] ?? '', /^(critical|warning)$/, alert);
    assert.match(annotations['summary'] ?? '', /\.$/, alert);
    assert.match(annotations['description'] ?? '', /\.$/, alert);
    assert.equal(annotations['runbook_url'], `docs/runbook.md#${alert.toLowerCase()}`);
  }
  assert.deepEqual(names, [...new Set(names)]);
});

test('every alert has a section in the runbook, and every section is of an alert', () => {
  const sections = [...RUNBOOK.matchAll(/^### (Stint\w+)$/gm)].map(([, name]) => name);
  assert.deepEqual(sections.toSorted(), names.toSorted());
});

test('every section of the runbook says what it means, how to look, what to do, and whom to wake', () => {
  for (const section of RUNBOOK.split(/^### /m).slice(1)) {
    const [title] = section.split('\n', 1);
    for (const part of ['Means', 'Look', 'Do', 'Wake somebody']) {
      assert.match(section, new RegExp(`^\\*\\*${part}\\*\\*`, 'm'), `${title!} does not say "${part}"`);
    }
  }
});

test('what an alert of the sampled gauges says stays when another instance takes the sampling over', () => {
  const sampled = /stint_(queue_jobs|queue_oldest|schedule_lag|due_job_lag|xmin_|table_)/;
  for (const { alert, expr, keep_firing_for: kept } of alerts().filter(({ expr }) => sampled.test(expr))) {
    if (!expr.startsWith('absent')) assert.equal(kept, '5m', alert);
  }
});

test('the chart takes a threshold for each alert that has one, and the name of any to leave out', () => {
  const adjustable = alerts()
    .filter(({ expr }) => ADJUSTABLE.test(expr))
    .map(({ alert }) => alert);
  assert.deepEqual([...VALUES.thresholds.propertyNames.enum].toSorted(), adjustable.toSorted());
  assert.deepEqual([...VALUES.disabled.items.enum].toSorted(), names.toSorted());
});

function charted(set: string): Alert[] {
  const groups = golden(set)
    .filter(({ kind }) => kind === 'PrometheusRule')
    .flatMap(({ spec }) => spec.groups as { name: string; rules: Alert[] }[]);
  return groups.filter(({ name }) => !name.endsWith('-extra')).flatMap(({ rules }) => rules);
}

test('the chart has the same alerts, of its own Pods, with thresholds, labels and links of its values', () => {
  const rules = charted('monitoring');
  assert.deepEqual(
    rules.map(({ alert }) => alert).toSorted(),
    names.filter((name) => name !== 'StintRelayAbsent').toSorted(),
  );
  for (const { alert, expr, labels, annotations } of rules) {
    assert.doesNotMatch(expr, /job="/, alert);
    assert.match(expr, /namespace="jobs",pod=~"stint-(relay-)?\[/, alert);
    assert.equal(labels['team'], 'platform', alert);
    assert.equal(annotations['runbook_url'], `https://wiki.example/stint/runbook#${alert.toLowerCase()}`);
  }
  const ends = (name: string): string =>
    rules
      .find(({ alert }) => alert === name)!
      .expr.split(' > ')
      .at(-1)!;
  assert.deepEqual(
    ['StintOldestReady', 'StintErrors', 'StintHorizonFar', 'StintDeadRows'].map(ends).map(Number),
    [300, 0.05, 10_000_000, 500_000],
  );
});

test('the chart has no alerts on a relay or on chores that there are not', () => {
  const rules = charted('sleeping').map(({ alert }) => alert);
  const expected = alerts().filter(({ group }) => !['stint-relay', 'stint-background'].includes(group));
  assert.deepEqual(rules.toSorted(), expected.map(({ alert }) => alert).toSorted());
});

describe('the rules, by Prometheus itself,', { skip: !HAS_GO && 'Go is not installed' }, () => {
  let folder: string;
  let ask: ReturnType<typeof buildValidator>;

  before(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'stint-alerts-'));
    ask = buildValidator(folder);
  });
  after(() => rmSync(folder, { recursive: true }));

  test('are files of rules as they stand, with templates that it understands', () => {
    const { ok, said } = ask(ruleFiles().map(({ text }) => ({ rules: text })));
    assert.ok(ok, said);
    for (const { name, text } of ruleFiles()) {
      const broken = text.replaceAll('{{ $', '{{ $no');
      assert.equal(ask([{ rules: broken }]).ok, false, name);
    }
  });

  test('have a case in which each fires, and one in which it does not', () => {
    for (const name of names) {
      const cases = ALERT_CASES.filter(({ alert }) => alert === name);
      assert.ok(
        cases.some(({ firing }) => firing.length > 0),
        `${name} never fires`,
      );
      assert.ok(
        cases.some(({ firing }) => firing.length === 0),
        `${name} always fires`,
      );
    }
  });

  for (const { alert, when, series, minute, firing } of ALERT_CASES) {
    test(`${alert} ${firing.length > 0 ? 'fires' : 'is silent'} ${when}`, () => {
      const { expr, for: held } = alerts().find((each) => each.alert === alert)!;
      const { ok, said } = ask([{ alert: { name: alert, expr, for: held, series, minute, firing } }]);
      assert.ok(ok, said);
    });
  }
});
