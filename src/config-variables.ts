import { type Static, Type } from 'typebox';

const file = { minLength: 1, 'x-accepts': 'a file in PEM' };
const port = { minimum: 0, maximum: 65_535 };

/** Every environment variable the service reads. An `x-secret` never appears in a message. */
export const VARIABLES = Type.Object({
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
      description:
        'A PostgreSQL 15 or newer of your own, connected to directly or through a session-mode pooler; ' +
        'with `?sslmode=verify-full` over TLS, see [operations.md](operations.md#tls-to-postgres).',
    }),
  ),
  STINT_MIGRATE: Type.Enum(['on', 'off'], {
    default: 'on',
    description:
      'Whether `stint serve` brings the database up to its version before it serves. With `off` it refuses an older database: run `stint migrate` first.',
  }),
  STINT_DATA_DIR: Type.String({
    minLength: 1,
    default: '.stint',
    'x-accepts': 'a directory',
    description: 'Where the embedded Postgres keeps its data; made if missing. Not used with STINT_DATABASE_URL.',
  }),
  STINT_ADMIN_KEY: Type.Optional(
    Type.String({
      pattern: '^[!-~]{32,256}( [!-~]{32,256})*$',
      'x-accepts': '32 to 256 printable ASCII characters without spaces',
      'x-default': 'required with STINT_DATABASE_URL',
      'x-secret': true,
      description:
        'The root credential, of scope `admin`; while one replaces another, both, with a space between them.',
    }),
  ),
  STINT_ADMIN_KEY_FILE: Type.Optional(
    Type.String({
      minLength: 1,
      'x-accepts': 'a file with a key, or several, a line each',
      'x-default': 'STINT_ADMIN_KEY counts',
      description: 'The root credentials in place of STINT_ADMIN_KEY; read again within a second when it changes.',
    }),
  ),
  STINT_JWT_ISSUERS_FILE: Type.Optional(
    Type.String({
      minLength: 1,
      'x-accepts': 'a file in JSON',
      'x-default': 'API keys alone',
      description: 'Issuers whose tokens (JWT) are taken as credentials; see [docs/security.md](security.md#tokens).',
    }),
  ),
  STINT_CORS_ORIGINS: Type.Optional(
    Type.String({
      'x-list': 'origins',
      'x-accepts': 'exact origins, separated by commas, as browsers send them, such as https://console.example.com',
      'x-default': 'none: no page elsewhere may call',
      description: 'Origins of web pages whose scripts may call the REST API, with a bearer token of their own.',
    }),
  ),
  STINT_TRUSTED_PROXIES: Type.Optional(
    Type.String({
      'x-list': 'networks',
      'x-accepts': 'IP addresses and CIDR ranges, separated by commas, such as 10.0.0.0/8,2001:db8::7',
      'x-default': 'none: the caller is who has connected',
      description: 'Proxies whose `X-Forwarded-For` is believed when the address of a caller is written down.',
    }),
  ),
  STINT_WEBHOOK_ALLOW_NETWORKS: Type.Optional(
    Type.String({
      'x-list': 'networks',
      'x-accepts': 'IP addresses and CIDR ranges, separated by commas, such as 10.0.0.0/8,2001:db8::7',
      'x-default': 'none: public addresses by https alone',
      description:
        'Networks that tenants’ webhooks may reach although they are not public, there also by http. See [docs/webhooks.md](webhooks.md#where-webhooks-may-go).',
    }),
  ),
  STINT_BACKGROUND: Type.Enum(['on', 'off'], {
    default: 'on',
    description:
      'With `off` the service runs no chore of its own and asks the database nothing while nobody calls: time moves on by `POST /v1/tick` alone. See [docs/tick.md](tick.md).',
  }),
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
    description: 'Longest time a graceful stop waits for calls under way, once the listener has closed.',
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
  STINT_AUDIT_RETENTION_DAYS: Type.Integer({
    minimum: 30,
    maximum: 3_650,
    default: 400,
    description: 'Days for which the audit log is kept.',
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

export type Values = Static<typeof VARIABLES>;
export type Name = keyof Values;
