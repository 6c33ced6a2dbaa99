import type { TraceHeaders } from './trace-context.js';

/** What the messaging conventions call the work of a call: jobs are put in, taken out, or over. */
export interface SpanShape {
  /** The verb: `enqueue`, `lease`, `ack`. */
  readonly verb: string;
  readonly type: 'send' | 'receive' | 'settle';
}

/** What a span tells of jobs; never what they hold. */
export interface SpanFacts {
  /** The queue, when it is one. */
  readonly queue?: string | undefined;
  /** How many jobs were put in, taken out, or settled. */
  readonly jobs?: number | undefined;
  /** The job, when it is one. */
  readonly job?: string | undefined;
  /** How many settles a lease carried along. */
  readonly settles?: number | undefined;
  /** How many settles came to nothing: their leases were lost, their jobs are gone, or they were malformed. */
  readonly missed?: number | undefined;
  /** The `traceparent` of each job, where it has one: the spans of these jobs' producers. */
  readonly producers?: readonly (string | undefined)[] | undefined;
}

/** What of a call a span is begun with. */
export interface SpannedCall {
  readonly requestId: string;
  readonly transport: 'http' | 'grpc';
  readonly traceparent: string | undefined;
  readonly tracestate: string | undefined;
  /** Made by a stream for its worker: the trace that the stream was opened in is linked to, since a stream may last for days. */
  readonly withinStream?: boolean;
}

export interface SpanEnd {
  /** `OK`, a code of the error table, or `CLIENT_CLOSED`. */
  readonly code: string;
  /** The tenant's name, once it is known. */
  readonly tenant: string | undefined;
  /** Seconds in which the call had nothing to do but wait for a job. */
  readonly idle: number;
}

/** The span of one call. */
export interface CallSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** False when it is not sampled: then nothing need be told. */
  readonly isRecorded: boolean;
  /** What a job of this call carries that says nothing itself: the caller's span, else this one if it is recorded. */
  readonly forJobs: TraceHeaders | undefined;
  /** Adds to what is known. */
  tell(facts: SpanFacts): void;
  /** To be called once. A lease that brought nothing about leaves no span. */
  end(how: SpanEnd): void;
}

export interface Traces {
  begin(shape: SpanShape, call: SpannedCall): CallSpan;
  /** Sends what is left, for two seconds at most; never rejects. */
  stop(): Promise<void>;
}
