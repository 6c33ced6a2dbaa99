import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { CHART, golden, type Manifest } from './chart.js';

interface Dashboard {
  readonly title: string;
  readonly uid: string;
  readonly panels: readonly {
    readonly id: number;
    readonly title: string;
    readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
    readonly targets?: readonly { readonly expr: string }[];
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
export function rulesOf(manifests: readonly Manifest[]): string[] {
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
  return [...panels, ...rules];
}
