import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { HERE } from './chart.js';

/** Whether there is a Go to build the validator with. */
export const HAS_GO = spawnSync('go', ['version']).status === 0;

/** Builds the validator into a folder; answers what asks it: each line is one of those that test/helm/validate knows. */
export function buildValidator(folder: string): (lines: readonly object[]) => { ok: boolean; said: string } {
  const program = path.join(folder, 'validate');
  const built = spawnSync('go', ['build', '-o', program, '.'], { cwd: path.join(HERE, 'validate'), encoding: 'utf8' });
  assert.equal(built.status, 0, built.stderr);
  return (lines) => {
    const input = lines.map((line) => JSON.stringify(line)).join('\n');
    const { status, stdout } = spawnSync(program, { input, encoding: 'utf8' });
    return { ok: status === 0, said: stdout };
  };
}
