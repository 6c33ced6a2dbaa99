import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import protobuf from 'protobufjs';

/** A span as it was exported, in a form to look at. */
export interface ReceivedSpan {
  readonly name: string;
  readonly kind: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Empty: a root. */
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  /** `UNSET`, `OK` or `ERROR`. */
  readonly status: string;
  readonly milliseconds: number;
  readonly resource: Readonly<Record<string, unknown>>;
}

export interface Collector {
  readonly url: string;
  readonly spans: ReceivedSpan[];
  /** Each export as it came, to the byte. */
  readonly bodies: Buffer[];
  /** Of each export. */
  readonly requests: { readonly path: string; readonly headers: IncomingHttpHeaders }[];
  close(): Promise<void>;
}

const KINDS = ['UNSPECIFIED', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'];
const STATUSES = ['UNSET', 'OK', 'ERROR'];

// What is looked at of opentelemetry/proto/collector/trace/v1/trace_service.proto and the files that it imports; the rest is skipped.
const { root } = protobuf.parse(`
  syntax = "proto3";
  message Export { repeated ResourceSpans resource_spans = 1; }
  message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
  message Resource { repeated KeyValue attributes = 1; }
  message ScopeSpans { repeated Span spans = 2; }
  message Span {
    bytes trace_id = 1;
    bytes span_id = 2;
    string trace_state = 3;
    bytes parent_span_id = 4;
    string name = 5;
    int32 kind = 6;
    fixed64 start_time_unix_nano = 7;
    fixed64 end_time_unix_nano = 8;
    repeated KeyValue attributes = 9;
    repeated Link links = 13;
    Status status = 15;
  }
  message Link { bytes trace_id = 1; bytes span_id = 2; }
  message Status { int32 code = 3; }
  message KeyValue { string key = 1; AnyValue value = 2; }
  message AnyValue { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; } }
`);
const Export = root.lookupType('Export');

type Pairs = { readonly key: string; readonly value?: Readonly<Record<string, unknown>> }[];

/** A collector that takes spans by OTLP over HTTP and keeps them. */
export async function startCollector(): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  const requests: Collector['requests'] = [];
  const bodies: Buffer[] = [];
  const server = createServer((request, response) => {
    requests.push({ path: request.url ?? '', headers: request.headers });
    void bytesOf(request).then((bytes) => {
      bodies.push(bytes);
      spans.push(...spansIn(bytes));
      response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    bodies,
    requests,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const bytes = Buffer.concat(chunks);
  return request.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes;
}

function spansIn(bytes: Buffer): ReceivedSpan[] {
  const { resourceSpans } = Export.toObject(Export.decode(bytes), {
    longs: Number,
    bytes: Buffer,
    defaults: true,
    oneofs: true,
  });
  return resourceSpans.flatMap(({ resource, scopeSpans }: any) =>
    scopeSpans.flatMap((scope: any) => scope.spans.map((span: any) => spanOf(span, valuesOf(resource.attributes)))),
  );
}

function spanOf(span: any, resource: ReceivedSpan['resource']): ReceivedSpan {
  return {
    name: span.name,
    kind: KINDS[span.kind]!,
    traceId: span.traceId.toString('hex'),
    spanId: span.spanId.toString('hex'),
    parentSpanId: span.parentSpanId.toString('hex'),
    traceState: span.traceState,
    attributes: valuesOf(span.attributes),
    links: span.links.map((link: any) => ({
      traceId: link.traceId.toString('hex'),
      spanId: link.spanId.toString('hex'),
    })),
    status: STATUSES[span.status?.code ?? 0]!,
    milliseconds: (span.endTimeUnixNano - span.startTimeUnixNano) / 1e6,
    resource,
  };
}

function valuesOf(pairs: Pairs): Record<string, unknown> {
  return Object.fromEntries(pairs.map(({ key, value = {} }) => [key, value[value['value'] as string]]));
}
