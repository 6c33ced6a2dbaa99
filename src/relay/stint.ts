import { readFile } from 'node:fs/promises';
import { batchOf } from './item.js';
import { type Outcome, readOutcome } from './outcome.js';

export interface StintOptions {
  /** `/v1/…` is put behind it. */
  readonly url: string;
  readonly key: string | undefined;
  /** A file that holds the key, read for each call, in place of `key`. */
  readonly keyFile: string | undefined;
  /** Ends a call under way. */
  readonly signal: AbortSignal;
}

/** How long a call may take. */
export const CALL_MS = 20_000;

/** Stint's REST API, as far as the relay uses it. */
export class Stint {
  constructor(private readonly options: StintOptions) {}

  /** Enqueues the jobs, all or none. Never throws. */
  async send(jobs: readonly Buffer[]): Promise<Outcome> {
    try {
      const response = await fetch(`${this.options.url.replace(/\/+$/, '')}/v1/jobs/batch`, {
        method: 'POST',
        headers: { authorization: `Bearer ${await this.key()}`, 'content-type': 'application/json' },
        body: batchOf(jobs),
        // Followed, it would carry the key elsewhere.
        redirect: 'manual',
        signal: AbortSignal.any([this.options.signal, AbortSignal.timeout(CALL_MS)]),
      });
      return readOutcome(response, await response.text(), jobs.length);
    } catch (error) {
      return { kind: 'away', reason: reasonOf(error) };
    }
  }

  /** Whether it would take jobs: a batch of none is refused as such once the credential has been looked at. */
  async probe(): Promise<{ readonly ok: boolean; readonly detail: string }> {
    const outcome = await this.send([]);
    return outcome.kind === 'away' ? { ok: false, detail: outcome.reason } : { ok: true, detail: 'ok' };
  }

  private async key(): Promise<string> {
    const { key, keyFile } = this.options;
    return keyFile === undefined ? key! : (await readFile(keyFile, 'utf8')).trim();
  }
}

/** Fetch hides what happened in the cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return `no answer within ${CALL_MS / 1_000} s`;
  const { cause } = error;
  if (cause instanceof AggregateError) return cause.errors.map(reasonOf).join('; ');
  return cause instanceof Error ? cause.message : error.message;
}
