import { type Static, Type } from 'typebox';
import { Timestamp } from '../core/wire.js';
import { DEAD_REASONS } from '../jobs/job.js';

/** Which dead jobs: these ids, or all that match the filter. Neither means all. */
export const DeadChoice = Type.Object({
  ids: Type.Optional(Type.Array(Type.String({ format: 'uuid' }), { minItems: 1, maxItems: 1000, 'x-boxed': true })),
  filter: Type.Optional(
    Type.Object(
      {
        kind: Type.Optional(Type.String({ maxLength: 128 })),
        reason: Type.Optional(Type.Enum([...DEAD_REASONS])),
        olderThan: Type.Optional(Timestamp({ description: 'Died before this instant.' })),
        newerThan: Type.Optional(Timestamp({ description: 'Died after this instant.' })),
      },
      { description: 'Jobs that meet all it names.' },
    ),
  ),
});
export type DeadChoice = Static<typeof DeadChoice>;

/** The choice as the statements take it. */
export function choiceParameters({ ids, filter = {} }: DeadChoice): unknown[] {
  return [ids ?? null, filter.kind ?? null, filter.reason ?? null, filter.olderThan ?? null, filter.newerThan ?? null];
}

/** Before every dead job in the order in which they died: an instant and an id. */
export const BEGINNING = [0, '00000000-0000-0000-0000-000000000000'] as const;
