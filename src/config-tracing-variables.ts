import { type Static, Type } from 'typebox';

const url = {
  pattern: '^https?://[^\\s@?#]+$',
  format: 'uri',
  'x-accepts': 'an http or https URL without user and password, such as http://collector:4318',
} as const;
const protocol = ['http/protobuf'];
const headers = {
  'x-list': 'headers',
  'x-accepts': 'name=value, several separated by commas, values percent-encoded',
  'x-default': 'none',
  'x-secret': true,
} as const;
const milliseconds = { minimum: 1, maximum: 600_000 };
const compression = ['none', 'gzip'];
const file = { minLength: 1, 'x-accepts': 'a file in PEM that can be read' };
const count = { minimum: 1, maximum: 1_000_000 };

/** Every variable of OpenTelemetry that the service reads. An `x-secret` never appears in a message. */
export const TRACING_VARIABLES = Type.Object({
  OTEL_EXPORTER_OTLP_ENDPOINT: Type.Optional(
    Type.String({
      ...url,
      'x-default': 'no spans',
      description: 'Where spans are sent, by OTLP over HTTP; `/v1/traces` is put behind it.',
    }),
  ),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: Type.Optional(
    Type.String({ ...url, 'x-default': 'the one above', description: 'The same, taken as it is.' }),
  ),
  OTEL_SDK_DISABLED: Type.Enum(['true', 'false'], {
    default: 'false',
    description: 'With `true` no spans, whatever else is set.',
  }),
  OTEL_TRACES_EXPORTER: Type.Enum(['otlp', 'none'], { default: 'otlp', description: 'With `none` no spans.' }),
  OTEL_EXPORTER_OTLP_PROTOCOL: Type.Enum(protocol, {
    default: 'http/protobuf',
    description: 'The only one there is here.',
  }),
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: Type.Optional(
    Type.Enum(protocol, { 'x-default': 'the one above', description: 'The same.' }),
  ),
  OTEL_EXPORTER_OTLP_HEADERS: Type.Optional(
    Type.String({ ...headers, description: 'Headers of every export, for instance a credential.' }),
  ),
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: Type.Optional(
    Type.String({ ...headers, description: 'Further ones, which win over those above.' }),
  ),
  OTEL_EXPORTER_OTLP_TIMEOUT: Type.Integer({
    ...milliseconds,
    default: 10_000,
    description: 'Milliseconds that an export may take, with all its attempts.',
  }),
  OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: Type.Optional(
    Type.Integer({ ...milliseconds, 'x-default': 'the one above', description: 'The same.' }),
  ),
  OTEL_EXPORTER_OTLP_COMPRESSION: Type.Enum(compression, {
    default: 'none',
    description: 'How exports are compressed.',
  }),
  OTEL_EXPORTER_OTLP_TRACES_COMPRESSION: Type.Optional(
    Type.Enum(compression, { 'x-default': 'the one above', description: 'The same.' }),
  ),
  OTEL_EXPORTER_OTLP_CERTIFICATE: Type.Optional(
    Type.String({
      ...file,
      'x-default': 'the authorities that Node knows',
      description: 'Authority of the collector’s certificate.',
    }),
  ),
  OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: Type.Optional(
    Type.String({ ...file, 'x-default': 'the one above', description: 'The same.' }),
  ),
  OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: Type.Optional(
    Type.String({ ...file, 'x-default': 'none', description: 'The service’s own certificate for the collector.' }),
  ),
  OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE: Type.Optional(
    Type.String({ ...file, 'x-default': 'the one above', description: 'The same.' }),
  ),
  OTEL_EXPORTER_OTLP_CLIENT_KEY: Type.Optional(
    Type.String({ ...file, 'x-default': 'none', description: 'Its private key.' }),
  ),
  OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY: Type.Optional(
    Type.String({ ...file, 'x-default': 'the one above', description: 'The same.' }),
  ),
  OTEL_SERVICE_NAME: Type.Optional(
    Type.String({
      pattern: '^[ -~\\u0080-\\uffff]{1,255}$',
      'x-accepts': '1 to 255 characters',
      'x-default': '`stint`',
      description: 'The resource’s `service.name`.',
    }),
  ),
  OTEL_RESOURCE_ATTRIBUTES: Type.Optional(
    Type.String({
      'x-list': 'attributes',
      'x-accepts':
        'key=value, several separated by commas, keys and values percent-encoded and of at most 255 characters',
      'x-default': 'none',
      description: 'Attributes of the resource, for instance `deployment.environment.name=production`.',
    }),
  ),
  OTEL_TRACES_SAMPLER: Type.Enum(
    [
      'always_on',
      'always_off',
      'traceidratio',
      'parentbased_always_on',
      'parentbased_always_off',
      'parentbased_traceidratio',
    ],
    {
      default: 'parentbased_always_on',
      description:
        'Which spans are recorded; with `parentbased_…` those whose caller records its own, and of the others as the rest of the name says.',
    },
  ),
  OTEL_TRACES_SAMPLER_ARG: Type.String({
    pattern: '^(0?\\.\\d{1,9}|0|1(\\.0{1,9})?)$',
    'x-accepts': 'a number from 0 to 1',
    default: '1',
    description: 'The share of traces that `traceidratio` records.',
  }),
  OTEL_BSP_SCHEDULE_DELAY: Type.Integer({
    ...milliseconds,
    default: 5_000,
    description: 'Milliseconds between two exports, unless a batch is full before.',
  }),
  OTEL_BSP_EXPORT_TIMEOUT: Type.Integer({
    ...milliseconds,
    default: 30_000,
    description: 'Milliseconds after which an export is waited for no longer.',
  }),
  OTEL_BSP_MAX_QUEUE_SIZE: Type.Integer({
    ...count,
    default: 2_048,
    description: 'Spans that wait in memory at most; what comes beyond is lost.',
  }),
  OTEL_BSP_MAX_EXPORT_BATCH_SIZE: Type.Integer({
    ...count,
    default: 512,
    description: 'Spans of one export at most.',
  }),
});

export type TracingValues = Static<typeof TRACING_VARIABLES>;
