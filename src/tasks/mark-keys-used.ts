import { plainArray } from '../db/literals.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import type { KnownKeys } from '../tenants/known-keys.js';
import type { Task } from './runner.js';

/** Notes which keys were used lately: once a minute for all of them together. */
export function createMarkKeysUsed(keys: KnownKeys): Task {
  return {
    name: 'mark-keys-used',
    every: 60_000,
    run: async ({ database }: Engine) => {
      const used = keys.takeUsed();
      if (used.length > 0) await database.tasks.query(MARK, [plainArray(used)]);
      return { counts: { keys: used.length } };
    },
  };
}

// Several instances may mark the same key: the second finds it marked and leaves it. Locks rows in the order of their ids.
const MARK: Statement = {
  name: 'keys-mark-used',
  text: `update api_key
set last_used_at = clock_timestamp()
where id = any(array(
  select id
  from api_key
  where id = any($1::uuid[]) and (last_used_at is null or last_used_at < clock_timestamp() - interval '50 seconds')
  order by id
  for no key update skip locked))`,
};
