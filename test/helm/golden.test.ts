import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { CHART, findHelm, goldenFile, KUBERNETES, render, template, valueSets } from './chart.js';

const helm = findHelm();

const REFUSED: readonly { readonly what: string; readonly set: string; readonly says: RegExp }[] = [
  { what: 'a value that does not exist', set: 'replicas=3', says: /additional properties 'replicas' not allowed/ },
  { what: 'a typo within a map', set: 'config.logLevl=debug', says: /'\/config': additional properties 'logLevl'/ },
  {
    what: 'a typo deep down',
    set: 'metrics.serviceMonitor.intervall=1m',
    says: /'\/metrics\/serviceMonitor'.*intervall/,
  },
  { what: 'a word for a number', set: 'replicaCount=two', says: /'\/replicaCount': got string, want integer/ },
  {
    what: 'a log level that there is not',
    set: 'config.logLevel=loud',
    says: /'\/config\/logLevel': value must be one of/,
  },
  {
    what: 'a drain beyond its bound',
    set: 'config.drainSeconds=61',
    says: /'\/config\/drainSeconds': maximum: got 61, want 60/,
  },
  { what: 'an admin key that is too short', set: 'admin.key=short', says: /'\/admin\/key'/ },
  {
    what: 'a mode of migrating that there is not',
    set: 'migrate.mode=job',
    says: /'\/migrate\/mode': value must be one of/,
  },
  {
    what: 'a grace that is shorter than a stop',
    set: 'terminationGracePeriodSeconds=10',
    says: /is too short: a stop takes up to 14 s/,
  },
  { what: 'a trial Postgres without a password', set: 'postgres.enabled=true', says: /postgres\.password is required/ },
  { what: 'TLS without a certificate', set: 'grpcTls.enabled=true', says: /grpcTls\.existingSecret is required/ },
  {
    what: 'no database at all',
    set: 'database.existingSecret=',
    says: /database\.existingSecret or database\.url is required/,
  },
  {
    what: 'a policy that shuts KEDA out',
    set: 'exampleWorker.enabled=true,networkPolicy.enabled=true,networkPolicy.from[0].podSelector.matchLabels.a=b',
    says: /networkPolicy\.kedaFrom is required/,
  },
  {
    what: 'fewer workers at most than at least',
    set: 'exampleWorker.enabled=true,exampleWorker.keda.minReplicaCount=20',
    says: /minReplicaCount is above maxReplicaCount/,
  },
  {
    what: 'KEDA without a certificate where every client needs one',
    set: 'exampleWorker.enabled=true,grpcTls.enabled=true,grpcTls.existingSecret=a,grpcTls.clientCertificates=true',
    says: /exampleWorker\.keda\.tls\.clientSecret is required/,
  },
  { what: 'an Ingress without a host', set: 'ingress.http.enabled=true', says: /ingress\.http\.hosts is required/ },
  {
    what: 'a route without a gateway',
    set: 'gateway.grpc.enabled=true',
    says: /gateway\.grpc\.parentRefs is required/,
  },
];

describe('the chart, by helm itself,', { skip: helm === undefined && 'helm is not installed' }, () => {
  test('passes helm lint --strict with every value set', () => {
    const values = valueSets().flatMap((name) => [[], ['--values', goldenFile(name).replace('/golden/', '/values/')]]);
    for (const args of values) {
      const { status, stdout, stderr } = spawnSync(
        helm!,
        ['lint', '--strict', '--kube-version', KUBERNETES, CHART, ...args],
        { encoding: 'utf8' },
      );
      assert.equal(status, 0, `${args.join(' ')}: ${stdout}${stderr}`);
    }
  });

  for (const name of valueSets()) {
    test(`renders ${name} as its golden file has it`, () => {
      const stale = `test/helm/golden/${name}.yaml is out of date: npm run build && node dist/test/helm/golden.js --write`;
      assert.ok(render(helm!, name) === readFileSync(goldenFile(name), 'utf8'), stale);
    });
  }

  for (const { what, set, says } of REFUSED) {
    test(`refuses ${what} and says so`, () => {
      const { ok, stderr } = template(helm!, ['--set', set]);
      assert.equal(ok, false);
      assert.match(stderr, says);
    });
  }

  test('refuses a cluster that is too old', () => {
    const { ok, stderr } = template(helm!, ['--kube-version', '1.28.0']);
    assert.equal(ok, false);
    assert.match(stderr, /incompatible with Kubernetes/);
  });
});
