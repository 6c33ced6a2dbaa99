import { unreadable } from './config-files.js';
import { listOf } from './config-formats.js';
import { TRACING_VARIABLES, type TracingValues } from './config-tracing-variables.js';

/** Where spans go, and which of them. Times in milliseconds. */
export interface TracingConfig {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeout: number;
  readonly compression: 'none' | 'gzip';
  readonly tls: {
    readonly authority: string | undefined;
    readonly certificate: string | undefined;
    readonly key: string | undefined;
  };
  /** Of the resource. */
  readonly attributes: Readonly<Record<string, string>>;
  readonly sampler: { readonly name: TracingValues['OTEL_TRACES_SAMPLER']; readonly ratio: number };
  readonly batch: {
    readonly delay: number;
    readonly timeout: number;
    readonly mostWaiting: number;
    readonly mostSpans: number;
  };
}

/** Those whose values are words. */
const FOLDED: ReadonlySet<string> = new Set(
  Object.entries(TRACING_VARIABLES.properties).flatMap(([name, schema]) => ('enum' in schema ? [name] : [])),
);

/**
 * The variables of OpenTelemetry in `env` as its specification reads them: what is empty is not set, words are taken in capitals too. None of
 * them when no spans are wanted: what nobody uses is no fault, and the same environment may serve other programs.
 */
export function tracingVariablesIn(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const given: NodeJS.ProcessEnv = {};
  for (const name of Object.keys(TRACING_VARIABLES.properties)) {
    const value = env[name]?.trim();
    if (value !== undefined && value !== '') given[name] = FOLDED.has(name) ? value.toLowerCase() : value;
  }
  const hasEndpoint =
    (given['OTEL_EXPORTER_OTLP_ENDPOINT'] ?? given['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT']) !== undefined;
  const isOff = given['OTEL_SDK_DISABLED'] === 'true' || given['OTEL_TRACES_EXPORTER'] === 'none';
  return hasEndpoint && !isOff ? given : {};
}

/** What does not go together, and files that cannot be read, in words. */
export function tracingFaults(values: TracingValues): string[] {
  const faults = (Object.keys(TRACING_VARIABLES.properties) as (keyof TracingValues)[])
    .filter((name) => /_(CERTIFICATE|CLIENT_KEY)$/.test(name))
    .flatMap((name) => (values[name] === undefined ? [] : unreadable(`${name} is`, String(values[name]))));
  const { certificate, key } = tlsOf(values);
  if ((certificate === undefined) !== (key === undefined)) {
    faults.push(
      'OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY go together: give both or neither',
    );
  }
  const { OTEL_BSP_MAX_QUEUE_SIZE: queue, OTEL_BSP_MAX_EXPORT_BATCH_SIZE: batch } = values;
  if (batch > queue) {
    faults.push(
      `OTEL_BSP_MAX_EXPORT_BATCH_SIZE is ${batch}, more than OTEL_BSP_MAX_QUEUE_SIZE, which is ${queue}: give at most that`,
    );
  }
  return faults;
}

/** Undefined when no spans are wanted. */
export function tracingConfigOf(values: TracingValues): TracingConfig | undefined {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: base, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: whole } = values;
  const url = whole ?? (base === undefined ? undefined : `${base.replace(/\/+$/, '')}/v1/traces`);
  if (url === undefined) return undefined;
  const name = values.OTEL_SERVICE_NAME;
  return {
    url,
    headers: {
      ...pairsOf(values.OTEL_EXPORTER_OTLP_HEADERS),
      ...pairsOf(values.OTEL_EXPORTER_OTLP_TRACES_HEADERS),
    },
    timeout: values.OTEL_EXPORTER_OTLP_TRACES_TIMEOUT ?? values.OTEL_EXPORTER_OTLP_TIMEOUT,
    compression: (values.OTEL_EXPORTER_OTLP_TRACES_COMPRESSION ?? values.OTEL_EXPORTER_OTLP_COMPRESSION) as
      'none' | 'gzip',
    tls: tlsOf(values),
    attributes: {
      ...pairsOf(values.OTEL_RESOURCE_ATTRIBUTES),
      ...(name !== undefined && { 'service.name': name }),
    },
    sampler: { name: values.OTEL_TRACES_SAMPLER, ratio: Number(values.OTEL_TRACES_SAMPLER_ARG) },
    batch: {
      delay: values.OTEL_BSP_SCHEDULE_DELAY,
      timeout: values.OTEL_BSP_EXPORT_TIMEOUT,
      mostWaiting: values.OTEL_BSP_MAX_QUEUE_SIZE,
      mostSpans: values.OTEL_BSP_MAX_EXPORT_BATCH_SIZE,
    },
  };
}

function tlsOf(values: TracingValues): TracingConfig['tls'] {
  return {
    authority: values.OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE ?? values.OTEL_EXPORTER_OTLP_CERTIFICATE,
    certificate: values.OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE ?? values.OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE,
    key: values.OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY ?? values.OTEL_EXPORTER_OTLP_CLIENT_KEY,
  };
}

/** Pairs that have been found well formed. */
function pairsOf(given: string | undefined): Record<string, string> {
  const pairs = listOf(given).filter((item) => item !== '');
  return Object.fromEntries(
    pairs.map((item) => {
      const at = item.indexOf('=');
      return [item.slice(0, at), item.slice(at + 1)].map((part) => decodeURIComponent(part.trim())) as [string, string];
    }),
  );
}
