/** What came of a call that was to enqueue several jobs. */
export type Outcome =
  | { readonly kind: 'accepted'; readonly deduplicated: number }
  /** One of the jobs is at fault, and nothing was enqueued. */
  | { readonly kind: 'refused'; readonly index: number; readonly reason: string }
  /** Some of the jobs are at fault, and it is not said which; `fault` is what is to become of a job that is refused so alone. */
  | {
      readonly kind: 'unplaced';
      readonly fault: 'job' | 'full' | 'internal';
      readonly reason: string;
      readonly retryAfter?: number | undefined;
    }
  /** Nothing is said of the jobs: try again later, after so many milliseconds if Stint has asked for it. */
  | { readonly kind: 'away'; readonly reason: string; readonly retryAfter?: number | undefined };

interface Problem {
  readonly code: string;
  readonly detail: string;
  readonly errors: readonly { readonly field: string; readonly message: string }[];
}

/** Codes that blame a job, and say of a lone one that it is to blame. */
const OF_A_JOB: ReadonlySet<string> = new Set([
  'INVALID_ARGUMENT',
  'PAYLOAD_TOO_LARGE',
  'CONFLICT',
  'IDEMPOTENCY_KEY_REUSED',
]);
/** Codes that may be about one queue. */
const OF_A_QUEUE: ReadonlySet<string> = new Set(['BACKLOG_FULL', 'QUOTA_EXCEEDED']);
/** Codes that do not blame a job unless they name it. */
const OF_A_NAMED_JOB: ReadonlySet<string> = new Set(['NOT_FOUND', 'PERMISSION_DENIED']);

/**
 * Reads an answer to a batch of `count` jobs. Only what is certainly Stint's counts against a job: a proxy or another server at the
 * same address must never get rows parked, nor deleted.
 */
export function readOutcome(response: Pick<Response, 'status' | 'headers'>, text: string, count: number): Outcome {
  const { status, headers } = response;
  if (status === 200 || status === 201) return acceptedOf(text, count);
  const retryAfter = retryAfterOf(headers.get('retry-after'));
  const problem = problemOf(headers, text);
  if (problem === undefined) {
    if (status === 413)
      return { kind: 'unplaced', fault: 'job', reason: 'a proxy answers 413: the request is too large' };
    return { kind: 'away', reason: `the answer ${status} is not Stint's`, retryAfter };
  }
  const { code } = problem;
  const reason = `${code}: ${problem.detail}`;
  const named = OF_A_JOB.has(code) || OF_A_NAMED_JOB.has(code) ? namedJob(problem, count) : undefined;
  if (named !== undefined) return { kind: 'refused', index: named, reason: `${code}: ${faultsOf(problem, named)}` };
  if (OF_A_JOB.has(code)) return { kind: 'unplaced', fault: 'job', reason };
  if (OF_A_QUEUE.has(code)) return { kind: 'unplaced', fault: 'full', reason, retryAfter };
  if (code === 'INTERNAL') return { kind: 'unplaced', fault: 'internal', reason, retryAfter };
  return { kind: 'away', reason, retryAfter };
}

function acceptedOf(text: string, count: number): Outcome {
  const body = parsed(text) as { readonly jobs?: unknown } | undefined;
  const jobs = body?.jobs;
  const isOurs = Array.isArray(jobs) && jobs.length === count && jobs.every(isJob);
  if (!isOurs) return { kind: 'away', reason: "the answer is not Stint's: it does not tell of each job" };
  return { kind: 'accepted', deduplicated: jobs.filter(({ deduplicated }) => deduplicated === true).length };
}

function isJob(job: unknown): job is { readonly id: string; readonly deduplicated?: unknown } {
  return typeof job === 'object' && job !== null && typeof (job as { id?: unknown }).id === 'string';
}

function problemOf(headers: Headers, text: string): Problem | undefined {
  if (headers.get('content-type')?.startsWith('application/problem+json') !== true) return undefined;
  const { code, detail, errors } = (parsed(text) ?? {}) as Partial<Record<keyof Problem, unknown>>;
  if (typeof code !== 'string') return undefined;
  return {
    code,
    detail: typeof detail === 'string' ? detail : code,
    errors: Array.isArray(errors) ? errors.filter(isFieldError) : [],
  };
}

function isFieldError(error: unknown): error is Problem['errors'][number] {
  const { field, message } = (error ?? {}) as { field?: unknown; message?: unknown };
  return typeof field === 'string' && typeof message === 'string';
}

function namedJob({ errors }: Problem, count: number): number | undefined {
  const index = Number(errors.map(({ field }) => PLACE.exec(field)?.[1]).find((found) => found !== undefined));
  return index < count ? index : undefined;
}

/** What is wrong with that job, its fields called as in a lone one. */
function faultsOf({ errors }: Problem, index: number): string {
  return errors
    .filter(({ field }) => PLACE.exec(field)?.[1] === String(index))
    .map(({ field, message }) => `${field.replace(PLACE, '')} ${message}`.trim())
    .join('; ');
}

const PLACE = /^jobs\[(\d+)\]\.?/;

/** Milliseconds; of seconds or a date, as RFC 9110 has it. */
function retryAfterOf(text: string | null): number | undefined {
  if (text === null) return undefined;
  const milliseconds = /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - Date.now();
  return Number.isFinite(milliseconds) ? Math.max(0, milliseconds) : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // Not JSON, so not Stint's.
    return undefined;
  }
}
