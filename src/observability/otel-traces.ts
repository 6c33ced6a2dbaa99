import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { createTraceState, type Link, ROOT_CONTEXT, type SpanContext, trace, type Tracer } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Log } from './log.js';
import { OtelSpan } from './otel-span.js';
import { ReportingExporter } from './span-exporter.js';
import { readTraceHeaders, readTraceparent, type TraceHeaders } from './trace-context.js';
import type { CallSpan, SpannedCall, SpanShape, Traces } from './traces.js';

export type SamplerName =
  | 'always_on'
  | 'always_off'
  | 'traceidratio'
  | 'parentbased_always_on'
  | 'parentbased_always_off'
  | 'parentbased_traceidratio';

/** Where spans go, and which of them. Times in milliseconds. */
export interface TracesOptions {
  /** The whole URL, of OTLP over HTTP in protobuf. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeout: number;
  readonly compression: 'none' | 'gzip';
  /** Files in PEM. */
  readonly tls: {
    readonly authority: string | undefined;
    readonly certificate: string | undefined;
    readonly key: string | undefined;
  };
  /** Of the resource; win over what is said here. */
  readonly attributes: Readonly<Record<string, string>>;
  readonly sampler: { readonly name: SamplerName; readonly ratio: number };
  readonly batch: {
    readonly delay: number;
    readonly timeout: number;
    readonly mostWaiting: number;
    readonly mostSpans: number;
  };
}

const STOP_MS = 2_000;

/**
 * Spans by the SDK of OpenTelemetry, with parts of its own for each service: nothing is registered globally, so that nothing of this
 * reaches other code of the process. To be imported only when spans are wanted, since the SDK takes its time to load.
 *
 * @throws Error when a file of `tls` cannot be read
 */
export class OtelTraces implements Traces {
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;
  readonly #exporter: ReportingExporter;

  constructor(options: TracesOptions, version: string, log: Log) {
    const { batch } = options;
    this.#exporter = new ReportingExporter(exporterOf(options), batch.mostWaiting, log);
    const processor = new BatchSpanProcessor({
      exporter: this.#exporter,
      scheduledDelayMillis: batch.delay,
      exportTimeoutMillis: batch.timeout,
      maxQueueSize: batch.mostWaiting,
      maxExportBatchSize: batch.mostSpans,
    });
    this.#provider = new TracerProvider({
      resource: resourceOf(options.attributes, version),
      sampler: samplerOf(options.sampler),
      spanProcessors: [processor],
    });
    this.#tracer = this.#provider.getTracer('stint', version);
  }

  begin(shape: SpanShape, call: SpannedCall): CallSpan {
    const given = readTraceHeaders(call.traceparent, call.tracestate);
    const caller = given === undefined ? undefined : contextOf(given);
    const isChild = caller !== undefined && call.withinStream !== true;
    const parent = isChild ? trace.setSpanContext(ROOT_CONTEXT, caller) : ROOT_CONTEXT;
    const links: Link[] = caller === undefined || isChild ? [] : [{ context: caller }];
    return new OtelSpan({
      shape,
      call,
      given,
      parent,
      links,
      tracer: this.#tracer,
      onEnd: () => this.#exporter.ended(),
    });
  }

  async stop(): Promise<void> {
    const late = new AbortController();
    const timeOut = pause(STOP_MS, undefined, { signal: late.signal }).catch(() => undefined);
    // What fails here the exporter has reported.
    await Promise.race([this.#provider.shutdown().catch(() => undefined), timeOut]);
    late.abort();
  }
}

function contextOf({ traceparent, tracestate }: TraceHeaders): SpanContext {
  return {
    ...readTraceparent(traceparent)!,
    isRemote: true,
    ...(tracestate !== undefined && { traceState: createTraceState(tracestate) }),
  };
}

function exporterOf({ url, headers, timeout, compression, tls }: TracesOptions): OTLPTraceExporter {
  const read = (file: string | undefined): Buffer | undefined => (file === undefined ? undefined : readFileSync(file));
  const given = {
    url,
    headers: { ...headers },
    timeoutMillis: timeout,
    compression,
    httpAgentOptions: { keepAlive: true, ca: read(tls.authority), cert: read(tls.certificate), key: read(tls.key) },
  };
  // The words for the compression are an enum of a package that the exporter brings along.
  return new OTLPTraceExporter(given as unknown as ConstructorParameters<typeof OTLPTraceExporter>[0]);
}

function resourceOf(attributes: TracesOptions['attributes'], version: string) {
  const own = { 'service.name': 'stint', 'service.version': version, 'service.instance.id': randomUUID() };
  return defaultResource().merge(resourceFromAttributes({ ...own, ...attributes }));
}

function samplerOf({ name, ratio }: TracesOptions['sampler']): Sampler {
  const root = name.endsWith('always_off')
    ? new AlwaysOffSampler()
    : name.endsWith('always_on')
      ? new AlwaysOnSampler()
      : new TraceIdRatioBasedSampler(ratio);
  return name.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root;
}
