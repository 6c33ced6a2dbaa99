import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { admitted, instructions, only, read, ROOT, stage, words } from './dockerfile.js';

const PACKAGE = JSON.parse(read('package.json')) as {
  readonly version: string;
  readonly license: string;
  readonly bin: Record<string, string>;
  readonly files: readonly string[];
  readonly scripts: Record<string, string>;
};
const RELEASED = ['stint', 'worker'] as const;
const HADOLINT = findHadolint();
const WITHOUT = HADOLINT === undefined && 'hadolint is not installed';

test('hadolint finds no fault in the Dockerfile', { skip: WITHOUT }, () => {
  const { status, stdout } = spawnSync(HADOLINT!, ['--no-color', 'Dockerfile'], { cwd: ROOT, encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});

test('hadolint finds a fault where there is one', { skip: WITHOUT }, () => {
  const { status, stdout } = spawnSync(HADOLINT!, ['--no-color', '-'], { input: 'FROM node\n', encoding: 'utf8' });
  assert.notEqual(status, 0);
  assert.match(stdout, /DL3006/);
});

test('every stage is built on one exact version of Node', () => {
  const base = instructions().filter(({ word, rest }) => word === 'ARG' && rest.startsWith('NODE='));
  assert.equal(base.length, 1);
  assert.match(base[0]!.rest, /^NODE=node:24\.\d+\.\d+-trixie-slim$/);
  const from = instructions().filter(({ word }) => word === 'FROM');
  assert.deepEqual(
    from.map(({ rest }) => rest),
    ['build', 'worker', 'stint'].map((name) => `\${NODE} AS ${name}`),
  );
});

test('the image of a plain docker build is the service', () => {
  assert.equal(instructions().findLast(({ word }) => word === 'FROM')!.rest, '${NODE} AS stint');
});

for (const name of RELEASED) {
  test(`${name} runs as a user of its own, stops by SIGTERM, and runs nothing while it is built`, () => {
    const own = stage(name);
    assert.equal(only(own, 'USER'), '10001:10001');
    assert.equal(only(own, 'STOPSIGNAL'), 'SIGTERM');
    assert.ok(!own.instructions.some(({ word }) => word === 'RUN' || word === 'ADD'));
    assert.match(only(own, 'COPY'), /^--from=build \/build\/dist\/image\/\w+ \/opt\/\w+$/);
  });

  test(`the labels of ${name} say the version and the licence of the package`, () => {
    const labels = only(stage(name), 'LABEL');
    assert.match(labels, /org\.opencontainers\.image\.title="[^"]+"/);
    assert.ok(labels.includes(`org.opencontainers.image.version="${PACKAGE.version}"`), labels);
    assert.ok(labels.includes(`org.opencontainers.image.licenses="${PACKAGE.license}"`), labels);
  });
}

test('the build installs by the lock file and then runs scripts of package.json, and nothing else', () => {
  const [install, ...others] = stage('build')
    .instructions.filter(({ word }) => word === 'RUN')
    .flatMap(({ rest }) => rest.split(' && '));
  assert.match(install!, /^npm ci --omit=optional --ignore-scripts\b/);
  assert.deepEqual(others, ['npm run build', 'npm run image:files']);
  for (const command of others) assert.ok(PACKAGE.scripts[command.slice('npm run '.length)], command);
});

test('the entry point is the program with the flags that npm start has', () => {
  assert.deepEqual(words(stage('stint'), 'ENTRYPOINT'), Object.keys(PACKAGE.bin));
  assert.deepEqual(words(stage('stint'), 'CMD'), ['serve']);
  const [, flags] = /^#!\/usr\/bin\/env -S node (.+)\n/.exec(read('src/main.ts'))!;
  assert.equal(PACKAGE.scripts['start'], `node ${flags!} ${PACKAGE.bin['stint']!} serve`);
});

test('the build is given all that the package holds, and neither secrets nor modules nor tests', () => {
  const given = admitted();
  for (const name of given) assert.ok(existsSync(path.join(ROOT, name)), `${name} is not there`);
  const needed = PACKAGE.files.filter((name) => !name.startsWith('dist/')).map((name) => name.split('/')[0]!);
  for (const name of ['package-lock.json', 'tsconfig.json', 'LICENSE', 'src', 'examples', ...needed]) {
    assert.ok(given.includes(name), `.dockerignore shuts ${name} out`);
  }
  for (const name of ['node_modules', 'dist', '.git', '.stint', 'test']) assert.ok(!given.includes(name), name);
});

/** On the PATH, or where pip puts programs; undefined where it is not installed. */
function findHadolint(): string | undefined {
  const scripts = ['-c', 'import sysconfig; print(sysconfig.get_path("scripts"))'];
  const { error, stdout } = spawnSync('python3', scripts, { encoding: 'utf8' });
  const places = ['hadolint', ...(error === undefined ? [path.join(stdout.trim(), 'hadolint')] : [])];
  return places.find((place) => spawnSync(place, ['--version']).error === undefined);
}
