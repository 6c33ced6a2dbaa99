import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Config, loadConfig, loadRelayConfig } from '../../src/config.js';
import { golden, type Manifest, valueSets } from './chart.js';

/* What must hold of the manifests whatever the values: looked at in the golden files, so that no helm is needed. */

const SETS = valueSets().map((name) => ({ name, manifests: golden(name) }));
const SECRETS: Record<string, string> = {
  STINT_DATABASE_URL: 'postgres://stint:secret@db:5432/stint',
  STINT_RELAY_DATABASE_URL: 'postgres://relay:secret@db:5432/shop',
};
/** What stopping may take beyond the drain, as src/service.ts has it. */
const AFTER_DRAIN_SECONDS = 1;

let files: string;

before(() => {
  files = mkdtempSync(path.join(tmpdir(), 'stint-chart-'));
  writeFileSync(path.join(files, 'key'), 'a-key-that-stands-for-the-mounted-one\n');
  const issuer = { issuer: 'https://a.example', audience: 'stint', jwks: 'https://a.example/keys', tenantClaim: 't' };
  writeFileSync(path.join(files, 'issuers.json'), JSON.stringify([issuer]));
});

after(() => rmSync(files, { recursive: true }));

function podsOf(manifests: readonly Manifest[]): { of: string; pod: any; labels: Record<string, string> }[] {
  return manifests.flatMap(({ kind, metadata, spec }) => {
    const template = kind === 'CronJob' ? spec.jobTemplate.spec.template : spec?.template;
    return template?.spec === undefined
      ? []
      : [{ of: `${kind} ${metadata.name}`, pod: template.spec, labels: template.metadata.labels }];
  });
}

function containersOf(pod: any): any[] {
  return [...(pod.initContainers ?? []), ...pod.containers];
}

/** The variables that a container is given; what secrets hold is made up. */
function environment(manifests: readonly Manifest[], container: any): NodeJS.ProcessEnv {
  const maps = (container.envFrom ?? []).flatMap(({ configMapRef }: any) =>
    Object.entries(find(manifests, { kind: 'ConfigMap', name: configMapRef?.name })?.['data'] ?? {}),
  );
  const own = (container.env ?? []).map(({ name, value }: any) => [name, value ?? SECRETS[name]]);
  const mounted = ([name, value]: [string, string]): [string, string] =>
    /_(KEY|ISSUERS)_FILE$/.test(name) && !name.includes('TLS')
      ? [name, path.join(files, path.basename(value))]
      : [name, value];
  return Object.fromEntries([...maps, ...own].map(mounted));
}

function find(manifests: readonly Manifest[], { kind, name }: { kind: string; name: string | undefined }) {
  return manifests.find((manifest) => manifest.kind === kind && manifest.metadata.name === name);
}

function serverOf(manifests: readonly Manifest[]) {
  return podsOf(manifests).find(({ labels }) => labels['app.kubernetes.io/component'] === 'server')!;
}

function withoutFiles(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('STINT_GRPC_TLS_')));
}

for (const { name, manifests } of SETS) {
  describe(`the manifests of ${name}`, () => {
    test('every Pod keeps to the restricted Pod Security Standard and gets no token and no service links', () => {
      for (const { of, pod } of podsOf(manifests)) {
        assert.equal(pod.automountServiceAccountToken, false, of);
        assert.equal(pod.enableServiceLinks, false, of);
        assert.equal(pod.securityContext.runAsNonRoot, true, of);
        assert.equal(pod.securityContext.seccompProfile.type, 'RuntimeDefault', of);
        for (const container of containersOf(pod).filter(({ name: own }: any) => own !== 'proxy')) {
          assert.equal(container.securityContext.allowPrivilegeEscalation, false, of);
          assert.equal(container.securityContext.readOnlyRootFilesystem, true, of);
          assert.deepEqual(container.securityContext.capabilities, { drop: ['ALL'] }, of);
          assert.ok(container.resources.requests.memory, `${of} requests no memory`);
          assert.ok(container.resources.limits.memory, `${of} has no bound of memory`);
        }
      }
    });

    test('the service accepts the variables that it is given, and has time to stop', () => {
      const { pod } = serverOf(manifests);
      const env = environment(manifests, pod.containers[0]);
      const config: Config = loadConfig(withoutFiles(env));
      const needed = config.drainDelaySeconds + config.drainSeconds + AFTER_DRAIN_SECONDS;
      assert.ok(pod.terminationGracePeriodSeconds > needed, `${pod.terminationGracePeriodSeconds} s is too short`);
    });

    test('whatever migrates accepts the variables that it is given', () => {
      const migrating = podsOf(manifests)
        .flatMap(({ pod }) => containersOf(pod))
        .filter(({ args }: any) => args?.[0] === 'migrate');
      assert.equal(migrating.length, ['trial-volatile', 'sleeping'].includes(name) ? 0 : 1);
      for (const container of migrating) {
        loadConfig(environment(manifests, container), { needsAdminKey: false });
      }
    });

    test('each Service leads to the Pods of one workload, at ports that they have', () => {
      const pods = podsOf(manifests);
      for (const { metadata, spec } of manifests.filter(({ kind }) => kind === 'Service')) {
        const wanted = Object.entries(spec.selector as Record<string, string>);
        const chosen = pods.filter(({ labels }) => wanted.every(([label, value]) => labels[label] === value));
        assert.equal(chosen.length, 1, `${metadata.name} leads to ${chosen.map(({ of }) => of).join(', ')}`);
        const ports = containersOf(chosen[0]!.pod).flatMap((container: any) => container.ports ?? []);
        for (const { targetPort } of spec.ports) {
          assert.ok(
            ports.some((port: any) => port.name === targetPort),
            `${metadata.name}: no port ${targetPort}`,
          );
        }
      }
    });

    test('a hook needs nothing that the release makes later', () => {
      const isHook = ({ metadata }: Manifest): boolean => metadata.annotations?.['helm.sh/hook'] !== undefined;
      const later = manifests
        .filter((manifest) => !isHook(manifest))
        .map(({ kind, metadata }) => `${kind} ${metadata.name}`);
      for (const { of, pod } of podsOf(manifests.filter(isHook))) {
        const secrets = containersOf(pod).flatMap(({ env = [] }: any) =>
          env.flatMap(({ valueFrom }: any) => valueFrom?.secretKeyRef?.name ?? []),
        );
        for (const secret of secrets) assert.ok(!later.includes(`Secret ${secret}`), `${of} needs ${secret}`);
        assert.equal(pod.serviceAccountName, undefined, of);
      }
    });

    test('no two objects have one name', () => {
      const names = manifests.map(({ apiVersion, kind, metadata }) => `${apiVersion} ${kind} ${metadata.name}`);
      assert.deepEqual(names, [...new Set(names)]);
    });
  });
}

test('the relay accepts the variables that it is given', () => {
  const manifests = golden('monitoring');
  const relay = podsOf(manifests).find(({ labels }) => labels['app.kubernetes.io/component'] === 'relay')!;
  const config = loadRelayConfig('all', environment(manifests, relay.pod.containers[0]));
  assert.equal(config.logLevel, 'info');
});
