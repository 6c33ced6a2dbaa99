import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { CHART, golden, type Manifest } from './chart.js';

/** An alert as the files of rules have it. */
export interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly keep_firing_for?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

interface RuleGroup {
  readonly name: string;
  readonly rules: readonly Alert[];
}

const RULES = path.join(CHART, 'rules');

/** The files of rules, as text. */
export function ruleFiles(): { name: string; text: string }[] {
  return readdirSync(RULES).map((name) => ({ name, text: readFileSync(path.join(RULES, name), 'utf8') }));
}

/** Every alert of the files of rules. */
export function alerts(): (Alert & { readonly file: string; readonly group: string })[] {
  return ruleFiles().flatMap(({ name: file, text }) =>
    (parse(text) as { groups: RuleGroup[] }).groups.flatMap(({ name: group, rules }) =>
      rules.map((rule) => ({ ...rule, file, group })),
    ),
  );
}

interface Dashboard {
  readonly title: string;
  readonly uid: string;
  readonly templating: { readonly list: readonly { readonly name: string; readonly type: string }[] };
  readonly panels: readonly {
    readonly id: number;
    readonly title: string;
    readonly type: string;
    readonly description?: string;
    readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
    readonly datasource?: { readonly uid: string };
    readonly targets?: readonly { readonly expr: string; readonly datasource: { readonly uid: string } }[];
  }[];
}

/** The dashboards of the chart, each with the expressions of its panels. */
export function dashboards(): { name: string; dashboard: Dashboard; expressions: string[] }[] {
  return readdirSync(path.join(CHART, 'dashboards')).map((name) => {
    const dashboard = JSON.parse(readFileSync(path.join(CHART, 'dashboards', name), 'utf8')) as Dashboard;
    const expressions = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    return { name, dashboard, expressions };
  });
}

/** The expressions of all alerts and records among manifests. */
function rulesOf(manifests: readonly Manifest[]): string[] {
  return manifests
    .filter(({ kind }) => kind === 'PrometheusRule')
    .flatMap(({ spec }) => spec.groups as { rules: { expr: string }[] }[])
    .flatMap(({ rules }) => rules.map(({ expr }) => expr));
}

/** Every expression that the chart brings, and where from; Grafana's own variables are filled in. */
export function expressionsOf(): { from: string; expression: string }[] {
  const panels = dashboards().flatMap(({ name, expressions }) =>
    expressions.map((expression) => ({ from: name, expression: expression.replaceAll('$__rate_interval', '1m') })),
  );
  const rules = ['monitoring', 'sleeping'].flatMap((name) =>
    rulesOf(golden(name)).map((expression) => ({ from: `the alerts of ${name}`, expression })),
  );
  const plain = alerts().map(({ file, expr }) => ({ from: file, expression: expr }));
  return [...panels, ...rules, ...plain];
}
