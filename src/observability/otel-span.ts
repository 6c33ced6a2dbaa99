import {
  type Attributes,
  type Context,
  type Link,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
} from '@opentelemetry/api';
import { readTraceparent, type TraceHeaders, writeTraceparent } from './trace-context.js';
import type { CallSpan, SpanEnd, SpanFacts, SpannedCall, SpanShape } from './traces.js';

export interface OtelSpanParts {
  readonly shape: SpanShape;
  readonly call: SpannedCall;
  /** What the caller said of its own span. */
  readonly given: TraceHeaders | undefined;
  readonly parent: Context;
  readonly links: Link[];
  readonly tracer: Tracer;
  /** Told when the span is on its way to the exporter. */
  readonly onEnd: () => void;
}

/** Producers that a span links to at most. */
const MOST_LINKS = 100;
/** Codes that are the service's failures; the others are the caller's, and no error of a server (as in the conventions for HTTP). */
const OWN_FAULTS: ReadonlySet<string> = new Set(['INTERNAL', 'UNAVAILABLE']);

/**
 * The span of a call by OpenTelemetry's conventions for messaging. They are written for clients; here is the other side of the call, so the
 * kind is SERVER in place of CLIENT, and PRODUCER where the jobs carry this very span on, since their caller brought none.
 */
export class OtelSpan implements CallSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly isRecorded: boolean;
  readonly forJobs: TraceHeaders | undefined;
  readonly #span: Span;
  #facts: SpanFacts = {};

  constructor(private readonly parts: OtelSpanParts) {
    const { shape, given, links, parent, tracer } = parts;
    const isProducer = shape.type === 'send' && given === undefined;
    this.#span = tracer.startSpan(
      shape.verb,
      {
        kind: isProducer ? SpanKind.PRODUCER : SpanKind.SERVER,
        links,
        attributes: {
          'messaging.system': 'stint',
          'messaging.operation.name': shape.verb,
          'messaging.operation.type': shape.type,
        },
      },
      parent,
    );
    const context = this.#span.spanContext();
    this.traceId = context.traceId;
    this.spanId = context.spanId;
    this.isRecorded = this.#span.isRecording();
    this.forJobs = given ?? (this.isRecorded ? { traceparent: writeTraceparent(context) } : undefined);
  }

  tell(facts: SpanFacts): void {
    this.#facts = { ...this.#facts, ...facts };
  }

  end({ code, tenant, idle }: SpanEnd): void {
    if (!this.isRecorded) return;
    const { queue, jobs = 0, settles = 0 } = this.#facts;
    const isReceive = this.parts.shape.type === 'receive';
    const isIdle = isReceive && jobs === 0 && (code === 'OK' || code === 'CLIENT_CLOSED');
    if (isIdle && settles === 0) return;
    if (queue !== undefined) this.#span.updateName(`${this.parts.shape.verb} ${queue}`);
    this.#span.setAttributes(this.#attributes({ code, tenant, idle }));
    for (const context of producersOf(this.#facts)) this.#span.addLink({ context });
    if (OWN_FAULTS.has(code)) this.#span.setStatus({ code: SpanStatusCode.ERROR });
    // Of a lease that settled and then waited in vain, the waiting is left out.
    this.#span.end(isIdle ? Date.now() - Math.round(idle * 1_000) : undefined);
    this.parts.onEnd();
  }

  #attributes({ code, tenant, idle }: SpanEnd): Attributes {
    const { queue, jobs, job, settles, missed } = this.#facts;
    const { requestId, transport } = this.parts.call;
    return {
      'messaging.destination.name': queue,
      'messaging.batch.message_count': jobs,
      'messaging.message.id': job,
      'error.type': code === 'OK' ? undefined : code,
      'stint.tenant': tenant,
      'stint.transport': transport,
      'stint.request_id': requestId,
      'stint.lease.idle_seconds': idle > 0 ? idle : undefined,
      'stint.settles': settles,
      'stint.settles.missed': missed,
    };
  }
}

/** The producers' spans, each once: the jobs of a batch have one. */
function producersOf({ producers = [] }: SpanFacts) {
  const distinct = new Set(producers);
  distinct.delete(undefined);
  return [...distinct]
    .slice(0, MOST_LINKS)
    .map((traceparent) => readTraceparent(traceparent))
    .filter((context) => context !== undefined);
}
