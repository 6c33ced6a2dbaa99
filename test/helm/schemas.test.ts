import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { golden, KUBERNETES, type Manifest, valueSets } from './chart.js';
import { expressionsOf } from './expressions.js';
import { type KedaFaults, kedaDefinitions } from './keda.js';
import { buildValidator, HAS_GO } from './validator.js';

/* The golden manifests against the schemas of Kubernetes and the types of those who extend it, all of them offline. */

/** The oldest that Chart.yaml admits, and the newest whose schemas are there. */
const VERSIONS = ['1.29.0', KUBERNETES];
/** Held to Go types; those of CloudNativePG are not to be had as a module. */
const BY_TYPE = /^(gateway\.networking\.k8s\.io|monitoring\.coreos\.com)\//;
const WITHOUT_SCHEMA = /^postgresql\.cnpg\.io\//;
/** Held to the definitions of the custom resources. */
const BY_DEFINITION = /^keda\.sh\//;

const SCHEMAS = spawnSync('python3', ['-c', 'import kubernetes_validate']).status === 0;

let folder: string;

before(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'stint-chart-'));
});

after(() => rmSync(folder, { recursive: true }));

function all(): { set: string; manifest: Manifest }[] {
  return valueSets().flatMap((set) => golden(set).map((manifest) => ({ set, manifest })));
}

function bySchema(manifests: readonly Manifest[]) {
  const file = path.join(folder, 'manifests.yaml');
  writeFileSync(file, manifests.map((manifest) => JSON.stringify(manifest)).join('\n---\n'));
  const versions = VERSIONS.flatMap((version) => ['--kubernetes-version', version]);
  const args = ['-m', 'kubernetes_validate', '--strict', '--quiet', ...versions, file];
  const { status, stdout, stderr } = spawnSync('python3', args, { encoding: 'utf8' });
  // A kind or a version without a schema is a warning to it, and a fault here.
  return { ok: status === 0 && !/^WARN/m.test(stdout + stderr), said: stdout + stderr };
}

describe('the schemas of Kubernetes', { skip: !SCHEMAS && 'kubernetes-validate is not installed' }, () => {
  test('accept every manifest of every value set, of the oldest version and of the newest', () => {
    const manifests = all().filter(
      ({ manifest: { apiVersion } }) =>
        ![BY_TYPE, BY_DEFINITION, WITHOUT_SCHEMA].some((others) => others.test(apiVersion)),
    );
    assert.ok(manifests.length > 60);
    const { ok, said } = bySchema(manifests.map(({ manifest }) => manifest));
    assert.ok(ok, said);
  });

  test('refuse a member that does not exist', () => {
    const [service] = golden('default').filter(({ kind }) => kind === 'Service');
    const { ok, said } = bySchema([{ ...service!, spec: { ...service!['spec'], portz: [] } }]);
    assert.equal(ok, false);
    assert.match(said, /portz/);
  });

  test('refuse a version of a kind that does not exist', () => {
    const [deployment] = golden('default').filter(({ kind }) => kind === 'Deployment');
    assert.equal(bySchema([{ ...deployment!, apiVersion: 'apps/v1beta9' }]).ok, false);
  });
});

describe(
  'the types of the Gateway API and of the Prometheus operator',
  { skip: !HAS_GO && 'Go is not installed' },
  () => {
    let byType: ReturnType<typeof buildValidator>;

    before(() => {
      byType = buildValidator(folder);
    });

    test('accept every manifest of theirs', () => {
      const manifests = all().filter(({ manifest }) => BY_TYPE.test(manifest.apiVersion));
      assert.ok(manifests.length >= 7);
      const { ok, said } = byType(manifests.map(({ manifest }) => manifest));
      assert.ok(ok, said);
    });

    test('refuse a member that does not exist', () => {
      const [route] = golden('gateway').filter(({ kind }) => kind === 'HTTPRoute');
      const { ok, said } = byType([{ ...route!, spec: { ...route!['spec'], ruels: [] } }]);
      assert.equal(ok, false);
      assert.match(said, /unknown field "spec\.ruels"/);
    });

    test('Prometheus parses every expression of the alerts and dashboards', () => {
      const expressions = expressionsOf();
      assert.ok(expressions.length > 50);
      const { ok, said } = byType(expressions.map(({ expression }) => ({ promql: expression })));
      assert.ok(ok, said);
      assert.equal(byType([{ promql: 'sum(rate(a[5m])' }]).ok, false);
    });
  },
);

describe('the definitions of KEDA', { skip: !HAS_GO && 'Go is not installed' }, () => {
  let faults: KedaFaults;

  before(() => {
    faults = kedaDefinitions();
  });

  test('accept every manifest of its', () => {
    const manifests = all().filter(({ manifest }) => BY_DEFINITION.test(manifest.apiVersion));
    assert.ok(manifests.length >= 3);
    for (const { set, manifest } of manifests) assert.deepEqual(faults(manifest), [], `${set}: ${manifest.kind}`);
  });

  test('refuse a member that does not exist, one of another type, and one that is missing', () => {
    const [scaled] = golden('workers').filter(({ kind }) => kind === 'ScaledObject');
    const { triggers, ...spec } = scaled!['spec'];
    const wrong = (other: object): string[] => faults({ ...scaled!, spec: { ...spec, ...other } });
    assert.match(wrong({ triggers, maxReplicas: 3 }).join(), /maxReplicas/);
    assert.match(wrong({ triggers, maxReplicaCount: 'ten' }).join(), /maxReplicaCount must be integer/);
    assert.match(wrong({ triggers: [{ ...triggers[0], metadata: { queue: 1 } }] }).join(), /queue must be string/);
    assert.match(wrong({}).join(), /triggers/);
    assert.deepEqual(wrong({ triggers }), []);
  });
});
