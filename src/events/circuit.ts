import type { Connections, Statement } from '../db/pool.js';

const MOST_FAILURES = 5;
const FIRST_OPEN_MS = 30_000;
const LONGEST_OPEN_MS = 15 * 60_000;
/** Longer than an attempt can take. */
const PROBE_MS = 20_000;

/**
 * The circuit breaker of a webhook, in its row, so that every instance knows. After five failures in a row nothing is delivered for 30 s,
 * then one delivery is tried: if it fails, the time doubles, up to 15 min. Times are lengthened by up to a fifth.
 */
export class Circuit {
  constructor(
    private readonly connections: Connections,
    private readonly webhookId: string,
  ) {}

  /** Whether the caller is the one who may try a circuit that has been open for its time. */
  async takeProbe(): Promise<boolean> {
    return (await this.connections.query(TAKE_PROBE, [this.webhookId, PROBE_MS])).length > 0;
  }

  /** A delivery has arrived: failures count from 0 again, and a probe closes the circuit. */
  async succeeded(isProbe: boolean): Promise<void> {
    await this.connections.query(SUCCEEDED, [this.webhookId, isProbe]);
  }

  /** A delivery has failed; `rest` is for how many milliseconds the endpoint asks to be left alone. Answers whether the circuit is open now. */
  async failed(failure: {
    readonly error: string;
    readonly isProbe: boolean;
    readonly rest: number | undefined;
  }): Promise<boolean> {
    const { error, isProbe, rest } = failure;
    const values = [this.webhookId, error, isProbe, rest ?? null, MOST_FAILURES, FIRST_OPEN_MS, LONGEST_OPEN_MS];
    const [row] = await this.connections.query<{ isOpen: boolean }>(FAILED, values);
    return row?.isOpen ?? true;
  }

  /** The endpoint is gone for good. */
  async disable(error: string): Promise<void> {
    await this.connections.query(DISABLE, [this.webhookId, error]);
  }
}

// All lock the webhook's row, by its primary key, for their own moment.
const TAKE_PROBE: Statement = {
  name: 'circuit-probe',
  text: `update webhook set open_until = clock_timestamp() + $2::float8 * interval '1 millisecond'
where id = $1::uuid and open_until <= clock_timestamp()
returning id`,
};

const SUCCEEDED: Statement = {
  name: 'circuit-succeeded',
  text: `update webhook
set failures = 0, opened = case when $2::boolean then 0 else opened end, open_until = case when $2::boolean then null else open_until end
where id = $1::uuid and (failures > 0 or ($2::boolean and open_until is not null))`,
};

// Of several failures at once only the first opens the circuit: the time grows with probes that fail, not with what was under way. Every
// value is the row's own, which one that waits for the lock reads anew.
const FAILED: Statement = {
  name: 'circuit-failed',
  text: `update webhook
set failures = failures + 1, last_error = $2, last_error_at = clock_timestamp(),
  opened = case when $3::boolean or (open_until is null and failures + 1 >= $5::int) then opened + 1 else opened end,
  open_until = greatest(open_until,
    case when $3::boolean or (open_until is null and failures + 1 >= $5::int) then
      clock_timestamp() + least($6::float8 * power(2, least(opened, 20)), $7::float8) * (1 + 0.2 * random()) * interval '1 millisecond' end,
    clock_timestamp() + $4::float8 * interval '1 millisecond')
where id = $1::uuid
returning open_until is not null as "isOpen"`,
};

const DISABLE: Statement = {
  name: 'circuit-disable',
  text: `update webhook
set disabled_at = clock_timestamp(), failures = failures + 1, last_error = $2, last_error_at = clock_timestamp(), open_until = null, opened = 0
where id = $1::uuid and disabled_at is null`,
};
