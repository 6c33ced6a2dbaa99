import { type Static, Type } from 'typebox';

/** Every environment variable of `stint relay`, beside STINT_LOG_LEVEL. An `x-secret` never appears in a message. */
export const RELAY_VARIABLES = Type.Object({
  STINT_RELAY_DATABASE_URL: Type.Optional(
    Type.String({
      pattern: '^postgres(ql)?://\\S+$',
      format: 'uri',
      'x-accepts': 'postgres://user:password@host:port/database',
      'x-default': 'required, but for `stint relay ddl`',
      'x-secret': true,
      description:
        'The application’s PostgreSQL, 13 or newer, connected to directly or through a session-mode pooler; TLS as for ' +
        '`STINT_DATABASE_URL`.',
    }),
  ),
  STINT_RELAY_URL: Type.Optional(
    Type.String({
      pattern: '^https?://[^\\s@?#]+$',
      format: 'uri',
      'x-accepts': 'the URL of a Stint without user and password, such as https://stint.example.com',
      'x-default': 'required by `stint relay`',
      description: 'Where Stint’s REST API is; `/v1/…` is put behind it.',
    }),
  ),
  STINT_RELAY_KEY: Type.Optional(
    Type.String({
      pattern: '^[!-~]{1,4096}$',
      'x-accepts': 'printable ASCII characters without spaces',
      'x-default': 'required by `stint relay`, or the next',
      'x-secret': true,
      description: 'The API key, of scope `enqueue`.',
    }),
  ),
  STINT_RELAY_KEY_FILE: Type.Optional(
    Type.String({
      minLength: 1,
      'x-accepts': 'a file with a key',
      'x-default': 'STINT_RELAY_KEY counts',
      description: 'The API key in place of STINT_RELAY_KEY; read again for each call.',
    }),
  ),
  STINT_RELAY_SCHEMA: Type.String({
    pattern: '^stint_[a-z0-9_]{1,50}$',
    'x-accepts': 'stint_ and 1 to 50 of a-z, 0-9 and _',
    default: 'stint_outbox',
    description: 'Schema of the outbox.',
  }),
  STINT_RELAY_BATCH: Type.Integer({
    minimum: 1,
    maximum: 1_000,
    default: 500,
    description: 'Most rows that are sent by one call.',
  }),
  STINT_RELAY_POLL_SECONDS: Type.Integer({
    minimum: 1,
    maximum: 300,
    default: 5,
    description: 'How often the outbox is looked at without being woken.',
  }),
  STINT_RELAY_HOST: Type.String({
    pattern: '^[A-Za-z0-9.:_%-]{1,253}$',
    'x-accepts': 'a host name or an IP address without brackets',
    default: '::',
    description: 'Address on which health and metrics are served.',
  }),
  STINT_RELAY_PORT: Type.Integer({
    minimum: 0,
    maximum: 65_535,
    default: 8081,
    description: 'Port of `/livez`, `/readyz` and `/metrics`; 0 takes any free one.',
  }),
});

export type RelayValues = Static<typeof RELAY_VARIABLES>;

/** What a command of the relay has need of: the name of the schema, the database too, or all. */
export type RelayNeeds = 'schema' | 'database' | 'all';

/** Undefined is what the command has no need of. */
export interface RelayConfig {
  readonly databaseUrl: string | undefined;
  readonly url: string | undefined;
  readonly key: string | undefined;
  /** Where the key is read from, in place of `key`. */
  readonly keyFile: string | undefined;
  readonly schema: string;
  readonly batch: number;
  readonly pollSeconds: number;
  readonly host: string;
  readonly port: number;
}

/** What is missing, or given twice, in words. */
export function relayFaults(values: RelayValues, needs: RelayNeeds): string[] {
  const faults: string[] = [];
  const { STINT_RELAY_KEY: key, STINT_RELAY_KEY_FILE: file } = values;
  if (needs !== 'schema' && values.STINT_RELAY_DATABASE_URL === undefined) {
    faults.push('STINT_RELAY_DATABASE_URL is missing: give postgres://user:password@host:port/database');
  }
  if (needs === 'all' && values.STINT_RELAY_URL === undefined) {
    faults.push('STINT_RELAY_URL is missing: give the URL of a Stint, such as https://stint.example.com');
  }
  if (needs === 'all' && key === undefined && file === undefined) {
    faults.push(
      'STINT_RELAY_KEY is missing: give an API key of scope enqueue, or a file with it as STINT_RELAY_KEY_FILE',
    );
  }
  if (key !== undefined && file !== undefined) {
    faults.push('STINT_RELAY_KEY and STINT_RELAY_KEY_FILE exclude each other: give one of them');
  }
  return faults;
}

export function relayConfigOf(values: RelayValues): RelayConfig {
  return {
    databaseUrl: values.STINT_RELAY_DATABASE_URL,
    url: values.STINT_RELAY_URL,
    key: values.STINT_RELAY_KEY,
    keyFile: values.STINT_RELAY_KEY_FILE,
    schema: values.STINT_RELAY_SCHEMA,
    batch: values.STINT_RELAY_BATCH,
    pollSeconds: values.STINT_RELAY_POLL_SECONDS,
    host: values.STINT_RELAY_HOST,
    port: values.STINT_RELAY_PORT,
  };
}
