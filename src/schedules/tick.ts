import { type Static, Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { ServiceError } from '../errors.js';
import type { ChoreResult } from '../hotpath/chores.js';
import type { Engine } from '../hotpath/engine.js';

const DEFAULT_LIMIT = 100;

const Input = Type.Object({
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_000,
      description: `How often each chore may run while it has more to do. Default ${DEFAULT_LIMIT}.`,
    }),
  ),
});

const Output = Type.Object({
  did: Type.Array(
    Type.Object({
      chore: Type.String({ description: 'For instance `promote-due`.' }),
      what: Type.String({ description: 'For instance `promoted`.' }),
      count: Type.Integer(),
    }),
    { description: 'What was done, without what was not.' },
  ),
  stillDue: Type.Array(Type.String(), { description: 'Chores that have more to do: tick again.' }),
  failed: Type.Array(Type.String(), {
    description: 'Chores that failed; the log says why, the next tick tries again.',
  }),
});
type Output = Static<typeof Output>;

/**
 * One bounded round of everything that time brings about: due jobs, expired leases, schedules, retention. Any number of callers, at
 * once or one after the other, do nothing twice. Throws UNAVAILABLE when no chore could run.
 */
export const tick = defineOperation({
  name: 'Tick',
  group: 'Schedules',
  summary: 'Do one round of all time-driven work',
  description:
    'For hosts that sleep (`STINT_BACKGROUND=off`): something outside calls this from time to time. It works for the whole ' +
    'installation, so its scope is for whoever runs it.',
  scopes: ['tick'],
  http: [{ method: 'POST', path: '/v1/tick' }],
  input: Input,
  output: Output,
  example: { limit: 10 },
  run: async ({ engine }: Context<Engine>, { limit = DEFAULT_LIMIT }: Static<typeof Input>): Promise<Output> => {
    const chores = await engine.chores.round(limit);
    if (chores.every(({ failed }) => failed)) {
      throw new ServiceError('UNAVAILABLE', 'the database is not available', { retryAfter: 5 });
    }
    return {
      did: chores.flatMap(countsOf),
      stillDue: chores.filter(({ isDone, failed }) => !isDone && !failed).map(({ name }) => name),
      failed: chores.filter(({ failed }) => failed).map(({ name }) => name),
    };
  },
});

function countsOf({ name, did }: ChoreResult): Output['did'] {
  return Object.entries(did).flatMap(([what, count]) => (count === 0 ? [] : [{ chore: name, what, count }]));
}
