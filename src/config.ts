import path from 'node:path';
import { type Issuer, readIssuers } from './config-issuers.js';
import { databaseUrlFaults } from './config-database.js';
import { listOf } from './config-formats.js';
import { nearestName } from './config-names.js';
import {
  RELAY_VARIABLES,
  type RelayConfig,
  relayConfigOf,
  relayFaults,
  type RelayNeeds,
  type RelayValues,
} from './config-relay.js';
import { TRACING_VARIABLES, type TracingValues } from './config-tracing-variables.js';
import { type TracingConfig, tracingConfigOf, tracingFaults, tracingVariablesIn } from './config-tracing.js';
import { accepts, faultIn, parse, type Variable } from './config-values.js';
import { type Name, type Values, VARIABLES } from './config-variables.js';

export interface Config {
  readonly httpPort: number;
  readonly grpcPort: number;
  /** Undefined: plaintext. */
  readonly grpcTls:
    { readonly certificate: string; readonly key: string; readonly clientAuthority: string | undefined } | undefined;
  readonly grpcConnectionSeconds: number;
  readonly host: string;
  /** Undefined: the embedded Postgres, in `dataDirectory`. */
  readonly databaseUrl: string | undefined;
  /** Whether the service migrates the database when it starts. */
  readonly migrate: boolean;
  /** Absolute. */
  readonly dataDirectory: string;
  /** Root keys; with a `databaseUrl` and without a file never none, unless the command has no use for them. */
  readonly adminKeys: readonly string[];
  /** Where root keys are read from, in place of `adminKeys`. */
  readonly adminKeyFile: string | undefined;
  /** Whose tokens are taken. */
  readonly jwtIssuers: readonly Issuer[];
  /** Empty: no cross-origin calls. */
  readonly corsOrigins: readonly string[];
  /** Addresses and CIDR ranges. */
  readonly trustedProxies: readonly string[];
  /** Addresses and CIDR ranges that webhooks may reach although they are not public. */
  readonly webhookNetworks: readonly string[];
  /** Whether the service does its chores by itself. */
  readonly background: boolean;
  readonly logLevel: Values['STINT_LOG_LEVEL'];
  /** Undefined: no spans. */
  readonly tracing: TracingConfig | undefined;
  /** Undefined: on the main port. */
  readonly metricsPort: number | undefined;
  readonly drainSeconds: number;
  readonly drainDelaySeconds: number;
  readonly databaseConnections: number;
  readonly auditRetentionDays: number;
  readonly maxWaiting: number;
  readonly keepAliveSeconds: number;
  /** For a benchmark's comparison: every call is a statement of its own. No variable of the service. */
  readonly coalescing: boolean;
}

export interface LoadOptions {
  /** Whether a database of one's own calls for STINT_ADMIN_KEY; true unless given. */
  readonly needsAdminKey?: boolean;
}

/**
 * The configuration in `env`, defaults filled in. Throws one Error that names every fault in plain words, a line each:
 * the variable, what was given (secrets excepted) and what is accepted.
 */
export function loadConfig(env: NodeJS.ProcessEnv = process.env, options: LoadOptions = {}): Config {
  const { values, faults } = read<Values>(env, variables());
  faults.push(...conflicts(values, env, options.needsAdminKey ?? true));
  const tracing = readTracing(env);
  faults.push(...tracing.faults);
  if (faults.length > 0) throw new Error(faults.join('\n'));
  return Object.freeze({ ...configOf(values, env), tracing: tracingConfigOf(tracing.values) });
}

/** The same for `stint relay`, which has no use for the service's variables, as the service has none for these. */
export function loadRelayConfig(
  needs: RelayNeeds,
  env: NodeJS.ProcessEnv = process.env,
): RelayConfig & Pick<Config, 'logLevel'> {
  const logLevel = variables().filter(([name]) => name === 'STINT_LOG_LEVEL');
  const { values, faults } = read<RelayValues & Pick<Values, 'STINT_LOG_LEVEL'>>(env, [
    ...relayVariables(),
    ...logLevel,
  ]);
  faults.push(...relayFaults(values, needs));
  faults.push(...databaseUrlFaults('STINT_RELAY_DATABASE_URL', values.STINT_RELAY_DATABASE_URL));
  if (faults.length > 0) throw new Error(faults.join('\n'));
  return Object.freeze({ ...relayConfigOf(values), logLevel: values.STINT_LOG_LEVEL });
}

function readTracing(env: NodeJS.ProcessEnv) {
  const { values, faults } = readKnown<TracingValues>(tracingVariablesIn(env), tracingVariables());
  return { values, faults: faults.length > 0 ? faults : tracingFaults(values) };
}

/** The table of all variables of the service, in Markdown, for docs/configuration.md. */
export function configurationTable(): string {
  return tableOf(variables());
}

/** The same of those of the relay. */
export function relayConfigurationTable(): string {
  return tableOf(relayVariables());
}

/** The same of those of OpenTelemetry. */
export function tracingConfigurationTable(): string {
  return tableOf(tracingVariables());
}

function tableOf(described: readonly [string, Variable][]): string {
  const rows = described.map(([name, schema]) => {
    const standard = schema['x-default'] ?? `\`${String(schema.default)}\``;
    return `| \`${name}\` | ${standard} | ${accepts(schema)} | ${schema.description ?? ''} |`;
  });
  return ['| Variable | Default | Accepts | Meaning |', '| --- | --- | --- | --- |', ...rows, ''].join('\n');
}

function variables(): [Name, Variable][] {
  return Object.entries(VARIABLES.properties) as unknown as [Name, Variable][];
}

function relayVariables(): [keyof RelayValues, Variable][] {
  return Object.entries(RELAY_VARIABLES.properties) as unknown as [keyof RelayValues, Variable][];
}

function tracingVariables(): [keyof TracingValues, Variable][] {
  return Object.entries(TRACING_VARIABLES.properties) as unknown as [keyof TracingValues, Variable][];
}

interface Read<T> {
  readonly values: T;
  readonly faults: string[];
}

/** What the environment says of these variables, and what is wrong with it: of these, and of names that nobody knows. */
function read<T>(env: NodeJS.ProcessEnv, described: readonly [string, Variable][]): Read<T> {
  const { values, faults } = readKnown<T>(env, described);
  return { values, faults: [...unknownNames(env), ...faults] };
}

function readKnown<T>(env: NodeJS.ProcessEnv, described: readonly [string, Variable][]): Read<T> {
  const faults: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, schema] of described) {
    const given = env[name];
    const fault = given === undefined ? undefined : faultIn(name, given, schema);
    if (fault !== undefined) faults.push(fault);
    else values[name] = given === undefined ? schema.default : parse(given, schema);
  }
  return { values: values as T, faults };
}

function unknownNames(env: NodeJS.ProcessEnv): string[] {
  const known = [...variables(), ...relayVariables()].map(([name]) => name as string);
  return Object.keys(env)
    .filter((name) => name.startsWith('STINT_') && !name.startsWith('STINT_TEST_') && !known.includes(name))
    .map((name) => {
      const nearest = nearestName(name, known);
      return `${name} is not a variable of Stint${nearest === undefined ? '' : `: did you mean ${nearest}?`}`;
    });
}

/** Of values that are sound each by itself; the others are absent. */
function conflicts(values: Partial<Values>, env: NodeJS.ProcessEnv, needsAdminKey: boolean): string[] {
  const faults: string[] = [];
  const [key, file] = [env['STINT_ADMIN_KEY'], env['STINT_ADMIN_KEY_FILE']];
  if (needsAdminKey && env['STINT_DATABASE_URL'] !== undefined && key === undefined && file === undefined) {
    const wanted = accepts(VARIABLES.properties.STINT_ADMIN_KEY);
    faults.push(`STINT_ADMIN_KEY is missing: a database of your own needs one (${wanted})`);
  }
  if (key !== undefined && file !== undefined) {
    faults.push('STINT_ADMIN_KEY and STINT_ADMIN_KEY_FILE exclude each other: give one of them');
  }
  const { STINT_METRICS_PORT: metrics, STINT_HTTP_PORT: http, STINT_GRPC_PORT: grpc } = values;
  if (metrics !== undefined && metrics !== 0 && metrics === http) {
    faults.push(
      `STINT_METRICS_PORT is ${metrics}, as STINT_HTTP_PORT is: give it another, or unset it to share the port`,
    );
  }
  faults.push(...databaseUrlFaults('STINT_DATABASE_URL', values.STINT_DATABASE_URL), ...tlsFaults(values));
  if (grpc === undefined || grpc === 0) return faults;
  if (grpc === http) faults.push(`STINT_GRPC_PORT is ${grpc}, as STINT_HTTP_PORT is: give it another`);
  if (grpc === metrics) faults.push(`STINT_GRPC_PORT is ${grpc}, as STINT_METRICS_PORT is: give it another`);
  return faults;
}

function tlsFaults(values: Partial<Values>): string[] {
  const { STINT_GRPC_TLS_CERT_FILE: certificate, STINT_GRPC_TLS_KEY_FILE: key } = values;
  if ((certificate === undefined) === (key === undefined)) {
    return values.STINT_GRPC_TLS_CLIENT_CA_FILE === undefined || certificate !== undefined
      ? []
      : ['STINT_GRPC_TLS_CLIENT_CA_FILE is given without STINT_GRPC_TLS_CERT_FILE and STINT_GRPC_TLS_KEY_FILE'];
  }
  return ['STINT_GRPC_TLS_CERT_FILE and STINT_GRPC_TLS_KEY_FILE go together: give both or neither'];
}

function tlsOf(values: Values): Config['grpcTls'] {
  const { STINT_GRPC_TLS_CERT_FILE: certificate, STINT_GRPC_TLS_KEY_FILE: key } = values;
  if (certificate === undefined || key === undefined) return undefined;
  return { certificate, key, clientAuthority: values.STINT_GRPC_TLS_CLIENT_CA_FILE };
}

function configOf(values: Values, env: NodeJS.ProcessEnv): Omit<Config, 'tracing'> {
  const embedded = values.STINT_DATABASE_URL === undefined;
  return {
    httpPort: values.STINT_HTTP_PORT,
    grpcPort: values.STINT_GRPC_PORT,
    grpcTls: tlsOf(values),
    grpcConnectionSeconds: values.STINT_GRPC_CONNECTION_SECONDS,
    host: values.STINT_HOST ?? (embedded ? '127.0.0.1' : '::'),
    databaseUrl: values.STINT_DATABASE_URL,
    migrate: values.STINT_MIGRATE === 'on',
    dataDirectory: path.resolve(values.STINT_DATA_DIR),
    adminKeys: values.STINT_ADMIN_KEY?.split(' ') ?? [],
    adminKeyFile: values.STINT_ADMIN_KEY_FILE,
    jwtIssuers: values.STINT_JWT_ISSUERS_FILE === undefined ? [] : readIssuers(values.STINT_JWT_ISSUERS_FILE),
    corsOrigins: listOf(values.STINT_CORS_ORIGINS),
    trustedProxies: listOf(values.STINT_TRUSTED_PROXIES),
    webhookNetworks: listOf(values.STINT_WEBHOOK_ALLOW_NETWORKS),
    background: values.STINT_BACKGROUND === 'on',
    logLevel: values.STINT_LOG_LEVEL,
    metricsPort: values.STINT_METRICS_PORT,
    drainSeconds: values.STINT_DRAIN_SECONDS,
    drainDelaySeconds: values.STINT_DRAIN_DELAY_SECONDS,
    databaseConnections: values.STINT_DATABASE_CONNECTIONS,
    auditRetentionDays: values.STINT_AUDIT_RETENTION_DAYS,
    maxWaiting: values.STINT_MAX_WAITING,
    keepAliveSeconds: values.STINT_KEEP_ALIVE_SECONDS,
    coalescing: env['STINT_TEST_COALESCING'] !== 'off',
  };
}
