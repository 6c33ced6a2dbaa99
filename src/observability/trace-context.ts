/** A span's context as it travels: the headers of W3C Trace Context. */
export interface TraceHeaders {
  readonly traceparent: string;
  readonly tracestate?: string | undefined;
}

/** What a `traceparent` names. */
export interface SpanRef {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  /** One byte. */
  readonly traceFlags: number;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-|$)/;
/** Of version 00: a later one may be longer. */
const LENGTH = 55;
const SAMPLED = 1;

const MEMBER = /^[a-z0-9][a-z0-9_*/@-]{0,255}=[ -+\--<>-~]{1,256}$/;
const MOST_MEMBERS = 32;
/** The least that everybody has to pass on, and the most that is passed on here. */
const MOST_CHARACTERS = 512;
/** A member longer than this is the first to go. */
const LONG_MEMBER = 128;

/** Reads a `traceparent` by W3C Trace Context; undefined when it is none, which is as if it had not been sent. */
export function readTraceparent(text: unknown): SpanRef | undefined {
  const [, version, traceId, spanId, flags] = (typeof text === 'string' && TRACEPARENT.exec(text)) || [];
  if (traceId === undefined || spanId === undefined || version === 'ff') return undefined;
  if (version === '00' && (text as string).length !== LENGTH) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  const traceFlags = Number.parseInt(flags!, 16);
  // Of a later version nothing is known but this flag.
  return { traceId, spanId, traceFlags: version === '00' ? traceFlags : traceFlags & SAMPLED };
}

export function writeTraceparent({ traceId, spanId, traceFlags }: SpanRef): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
}

/**
 * The headers of a request as they are passed on: a valid `traceparent`, and of the `tracestate` beside it no more than 512 characters,
 * long members dropped first, then the last. Undefined without a valid `traceparent`.
 */
export function readTraceHeaders(
  traceparent: string | undefined,
  tracestate: string | undefined,
): TraceHeaders | undefined {
  const parent = readTraceparent(traceparent);
  if (parent === undefined) return undefined;
  return {
    traceparent: writeTraceparent(parent),
    tracestate: tracestate === undefined ? undefined : shortened(tracestate),
  };
}

/** Undefined when a member is not well formed: a part of it would be no less wrong. */
function shortened(tracestate: string): string | undefined {
  const members = tracestate
    .split(',')
    .map((member) => member.trim())
    .filter((member) => member !== '');
  if (members.length === 0 || members.length > MOST_MEMBERS) return undefined;
  if (!members.every((member) => MEMBER.test(member))) return undefined;
  const isLong = (kept: readonly string[]): boolean => kept.join(',').length > MOST_CHARACTERS;
  let kept = isLong(members) ? members.filter(({ length }) => length <= LONG_MEMBER) : members;
  while (isLong(kept)) kept = kept.slice(0, -1);
  return kept.length === 0 ? undefined : kept.join(',');
}
