import path from 'node:path';
import { type Static, Type } from 'typebox';
import { nearestName } from './config-names.js';
import { accepts, faultIn, parse, type Variable } from './config-values.js';

const file = { minLength: 1, 'x-accepts': 'a file in PEM' };
const port = { minimum: 0, maximum: 65_535 };

/** Every environment variable the service reads. An `x-secret` never appears in a message. */
const VARIABLES = Type.Object({
  STINT_HTTP_PORT: Type.Integer({ ...port, default: 8080, description: 'Port of the REST API; 0 takes any free one.' }),
  STINT_GRPC_PORT: Type.Integer({ ...port, default: 9090, description: 'Port of the gRPC API; 0 takes any free one.' }),
  STINT_GRPC_TLS_CERT_FILE: Type.Optional(
    Type.String({
      ...file,
      'x-default': 'plaintext',
      description: 'Certificate of the gRPC server; read again when it changes.',
    }),
  ),
  STINT_GRPC_TLS_KEY_FILE: Type.Optional(
    Type.String({ ...file, 'x-default': 'plaintext', description: 'Its private key.' }),
  ),
  STINT_GRPC_TLS_CLIENT_CA_FILE: Type.Optional(
    Type.String({
      ...file,
      'x-default': 'no client certificates',
      description: 'Authority of the clients’ certificates: with it every gRPC client must have one.',
    }),
  ),
  STINT_GRPC_CONNECTION_SECONDS: Type.Integer({
    minimum: 0,
    maximum: 86_400,
    default: 3_600,
    description:
      'About how long a gRPC connection is kept before its client is asked to connect anew, which spreads load; 0: no bound.',
  }),
  STINT_HOST: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9.:_%-]{1,253}$',
      'x-accepts': 'a host name or an IP address without brackets',
      'x-default': '`127.0.0.1` with the embedded Postgres, else `::` (all addresses)',
      description: 'Address to listen on.',
    }),
  ),
  STINT_DATABASE_URL: Type.Optional(
    Type.String({
      pattern: '^postgres(ql)?://\\S+$',
      format: 'uri',
      'x-accepts': 'postgres://user:password@host:port/database',
      'x-default': 'the embedded Postgres',
      'x-secret': true,
      description: 'A PostgreSQL 15 or newer of your own, connected to directly or through a session-mode pooler.',
    }),
  ),
  STINT_DATA_DIR: Type.String({
    minLength: 1,
    default: '.stint',
    'x-accepts': 'a directory',
    description: 'Where the embedded Postgres keeps its data; made if missing. Not used with STINT_DATABASE_URL.',
  }),
  STINT_ADMIN_KEY: Type.Optional(
    Type.String({
      pattern: '^[!-~]{32,256}$',
      'x-accepts': '32 to 256 printable ASCII characters without spaces',
      'x-default': 'required with STINT_DATABASE_URL',
      'x-secret': true,
      description: 'The root credential, of scope `admin`.',
    }),
  ),
  STINT_LOG_LEVEL: Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
    default: 'info',
    description: 'The least severe log lines that are written.',
  }),
  STINT_METRICS_PORT: Type.Optional(
    Type.Integer({
      ...port,
      'x-default': 'the main port',
      description: 'A port of its own for `/metrics`; 0 takes any free one.',
    }),
  ),
  STINT_DRAIN_SECONDS: Type.Integer({
    minimum: 1,
    maximum: 60,
    default: 8,
    description: 'Longest time a graceful stop waits for calls under way.',
  }),
  STINT_DRAIN_DELAY_SECONDS: Type.Integer({
    minimum: 0,
    maximum: 60,
    default: 0,
    description: 'Time that `/readyz` says no before the listener closes, for load balancers to notice.',
  }),
  STINT_DATABASE_CONNECTIONS: Type.Integer({
    minimum: 1,
    maximum: 200,
    default: 8,
    description: 'Database connections for ordinary calls.',
  }),
  STINT_MAX_WAITING: Type.Integer({
    minimum: 1_000,
    maximum: 1_000_000,
    default: 20_000,
    description: 'Rows that may wait for the next batch of one kind; past it calls are 503.',
  }),
  STINT_KEEP_ALIVE_SECONDS: Type.Integer({
    minimum: 1,
    maximum: 3_600,
    default: 75,
    description: 'Time an idle HTTP connection is kept open; longer than that of the load balancer in front.',
  }),
});

type Values = Static<typeof VARIABLES>;
type Name = keyof Values;

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
  /** Absolute. */
  readonly dataDirectory: string;
  /** Never undefined with a `databaseUrl`, unless the command has no use for it. */
  readonly adminKey: string | undefined;
  readonly logLevel: Values['STINT_LOG_LEVEL'];
  /** Undefined: on the main port. */
  readonly metricsPort: number | undefined;
  readonly drainSeconds: number;
  readonly drainDelaySeconds: number;
  readonly databaseConnections: number;
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
  const faults = unknownNames(env);
  const values: Partial<Record<Name, unknown>> = {};
  for (const [name, schema] of variables()) {
    const given = env[name];
    const fault = given === undefined ? undefined : faultIn(name, given, schema);
    if (fault !== undefined) faults.push(fault);
    else values[name] = given === undefined ? schema.default : parse(given, schema);
  }
  const read = values as Values;
  faults.push(...conflicts(read, env, options.needsAdminKey ?? true));
  if (faults.length > 0) throw new Error(faults.join('\n'));
  return Object.freeze(configOf(read, env));
}

/** The table of all variables, in Markdown, for docs/configuration.md. */
export function configurationTable(): string {
  const rows = variables().map(([name, schema]) => {
    const standard = schema['x-default'] ?? `\`${String(schema.default)}\``;
    return `| \`${name}\` | ${standard} | ${accepts(schema)} | ${schema.description ?? ''} |`;
  });
  return ['| Variable | Default | Accepts | Meaning |', '| --- | --- | --- | --- |', ...rows, ''].join('\n');
}

function variables(): [Name, Variable][] {
  return Object.entries(VARIABLES.properties) as unknown as [Name, Variable][];
}

function unknownNames(env: NodeJS.ProcessEnv): string[] {
  const known = Object.keys(VARIABLES.properties);
  return Object.keys(env)
    .filter((name) => name.startsWith('STINT_') && !name.startsWith('STINT_TEST_') && !known.includes(name))
    .map((name) => {
      const nearest = nearestName(name, known);
      return `${name} is not a variable of Stint${nearest === undefined ? '' : `: did you mean ${nearest}?`}`;
    });
}

function conflicts(values: Values, env: NodeJS.ProcessEnv, needsAdminKey: boolean): string[] {
  const faults: string[] = [];
  if (needsAdminKey && env['STINT_DATABASE_URL'] !== undefined && env['STINT_ADMIN_KEY'] === undefined) {
    const wanted = accepts(VARIABLES.properties.STINT_ADMIN_KEY);
    faults.push(`STINT_ADMIN_KEY is missing: a database of your own needs one (${wanted})`);
  }
  const { STINT_METRICS_PORT: metrics, STINT_HTTP_PORT: http, STINT_GRPC_PORT: grpc } = values;
  if (metrics !== undefined && metrics !== 0 && metrics === http) {
    faults.push(
      `STINT_METRICS_PORT is ${metrics}, as STINT_HTTP_PORT is: give it another, or unset it to share the port`,
    );
  }
  faults.push(...tlsFaults(values));
  if (grpc !== 0 && grpc === http) faults.push(`STINT_GRPC_PORT is ${grpc}, as STINT_HTTP_PORT is: give it another`);
  if (grpc !== 0 && grpc === metrics)
    faults.push(`STINT_GRPC_PORT is ${grpc}, as STINT_METRICS_PORT is: give it another`);
  return faults;
}

function tlsFaults(values: Values): string[] {
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

function configOf(values: Values, env: NodeJS.ProcessEnv): Config {
  const embedded = values.STINT_DATABASE_URL === undefined;
  return {
    httpPort: values.STINT_HTTP_PORT,
    grpcPort: values.STINT_GRPC_PORT,
    grpcTls: tlsOf(values),
    grpcConnectionSeconds: values.STINT_GRPC_CONNECTION_SECONDS,
    host: values.STINT_HOST ?? (embedded ? '127.0.0.1' : '::'),
    databaseUrl: values.STINT_DATABASE_URL,
    dataDirectory: path.resolve(values.STINT_DATA_DIR),
    adminKey: values.STINT_ADMIN_KEY,
    logLevel: values.STINT_LOG_LEVEL,
    metricsPort: values.STINT_METRICS_PORT,
    drainSeconds: values.STINT_DRAIN_SECONDS,
    drainDelaySeconds: values.STINT_DRAIN_DELAY_SECONDS,
    databaseConnections: values.STINT_DATABASE_CONNECTIONS,
    maxWaiting: values.STINT_MAX_WAITING,
    keepAliveSeconds: values.STINT_KEEP_ALIVE_SECONDS,
    coalescing: env['STINT_TEST_COALESCING'] !== 'off',
  };
}
