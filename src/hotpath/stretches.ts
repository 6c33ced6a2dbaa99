import { plainArray } from '../db/literals.js';
import type { Stretch } from './lanes.js';

/**
 * The stretches of many queues as parameters of one statement: for each queue the first and last of its stretches (from 1), and
 * the stretches themselves.
 */
export function stretchParameters(queues: readonly (readonly Stretch[])[]): string[] {
  const all = queues.flat();
  let end = 0;
  const lasts = queues.map((stretches) => (end += stretches.length));
  return [
    plainArray(lasts.map((last, index) => last - queues[index]!.length + 1)),
    plainArray(lasts),
    plainArray(all.map(({ fromRank }) => fromRank)),
    plainArray(all.map(({ fromPos }) => fromPos)),
    plainArray(all.map(({ toRank }) => toRank)),
  ];
}
