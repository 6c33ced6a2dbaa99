import { type Static, Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import type { Engine } from '../hotpath/engine.js';
import type { Watch } from '../hotpath/watches.js';
import { triggerInput } from './trigger.js';
import { isActive, readWorkload, type Workload } from './workload.js';

/** How long one call waits; the stream then asks anew, with the credential anew. */
const WAIT_MS = 60_000;

const Input = Type.Object({
  ...triggerInput,
  /** What the stream has said last. */
  last: Type.Optional(Type.Boolean()),
});

/** The same as IsActive, but waits until it is other than `last`; at most a minute, and not for a caller who is gone. */
export const streamIsActive = defineOperation({
  name: 'StreamIsActive',
  group: 'Queues',
  summary: 'Whether queues have work, told when it changes',
  scopes: ['work', 'read'],
  http: [],
  input: Input,
  output: Type.Object({ active: Type.Boolean() }),
  run: async (context: Context<Engine>, input) => {
    const { engine, departure } = context;
    const watch = engine.watches.begin();
    const onGone = (): void => watch.tell();
    departure.listen(onGone);
    try {
      return { active: await untilOther(context, input, watch) };
    } finally {
      departure.unlisten(onGone);
      watch.end();
    }
  },
});

async function untilOther(
  context: Context<Engine>,
  { scalerMetadata: trigger, last }: Static<typeof Input>,
  watch: Watch,
): Promise<boolean> {
  const until = performance.now() + WAIT_MS;
  for (;;) {
    watch.look();
    const workload: Workload = await readWorkload(context, trigger, 'now');
    const active = isActive(trigger, workload);
    const began = performance.now();
    if (active !== last || began >= until || context.departure.happened) return active;
    const { queueIds, lacking } = workload;
    // Jobs that become ready change nothing where there is work already.
    await watch.news({ queueIds, lacking, forReady: !active }, until - began);
    context.idled((performance.now() - began) / 1_000);
  }
}
