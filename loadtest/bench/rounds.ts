import type { Measured, Work } from './measure.js';
import { measure } from './measure.js';
import type { Rig } from './rig.js';

/** Measures one way and the other in turn, A B A B A B, so that what drifts meanwhile is in both. Before that each warms up. */
export async function interleaved(
  rig: Rig,
  a: Work & { readonly name: string },
  b: Work & { readonly name: string },
): Promise<{ readonly a: Measured[]; readonly b: Measured[] }> {
  for (const way of [a, b]) {
    rig.say(`warming up: ${way.name}`);
    await measure(rig, { ...way, seconds: way.warmSeconds ?? rig.scale.warmSeconds });
  }
  const results: { a: Measured[]; b: Measured[] } = { a: [], b: [] };
  for (let round = 1; round <= rig.scale.rounds; round += 1) {
    rig.say(`round ${round}: ${a.name}`);
    results.a.push(await measure(rig, a));
    rig.say(`round ${round}: ${b.name}`);
    results.b.push(await measure(rig, b));
  }
  return results;
}
