import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { loadConfig } from '../../src/config.js';
import { createLog, type Log } from '../../src/observability/log.js';
import { type Service, startService } from '../../src/service.js';
import { overGrpc } from './grpc-client.js';
import { createDatabase, query, type TestDatabase } from './postgres.js';

/** An answer as it came, with its body read as JSON where it is JSON. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: any;
}

export interface Client {
  readonly base: string;
  readonly key: string;
  request(method: string, path: string, body?: unknown, init?: RequestInit): Promise<Answer>;
  get(path: string): Promise<Answer>;
  post(path: string, body?: unknown, init?: RequestInit): Promise<Answer>;
  put(path: string, body?: unknown): Promise<Answer>;
  patch(path: string, body?: unknown): Promise<Answer>;
  delete(path: string): Promise<Answer>;
}

/** Whether the behaviour suites speak gRPC. */
const OVER_GRPC = process.env['STINT_TEST_TRANSPORT'] === 'grpc';

/** Where the services of this process speak gRPC, by where they speak HTTP. */
const grpcOf = new Map<string, string>();

export interface TestService {
  readonly database: TestDatabase;
  readonly base: string;
  /** `host:port` of gRPC. */
  readonly grpc: string;
  readonly adminKey: string;
  readonly admin: Client;
  /** A client of a new tenant, with all scopes unless named. */
  tenant(options?: {
    readonly autoCreateQueues?: boolean;
    readonly scopes?: readonly string[];
    readonly name?: string;
  }): Promise<Client>;
  /** Rows of one statement in this service's database; the schema `stint` is to be named. */
  sql(text: string, params?: unknown[]): Promise<any[]>;
  /** A further instance on the same database. */
  another(env?: Readonly<Record<string, string>>): Promise<TestService>;
  stop(): Promise<void>;
}

/** The real service on a free port and a database of its own. */
export async function startTestService(env: Readonly<Record<string, string>> = {}, log?: Log): Promise<TestService> {
  const database = await createDatabase();
  const adminKey = `test-admin-${randomBytes(16).toString('hex')}`;
  const service = await startOn(database, adminKey, env, log);
  return { ...service, stop: () => service.stop().then(() => database.drop()) };
}

async function startOn(
  database: TestDatabase,
  adminKey: string,
  env: Readonly<Record<string, string>>,
  log: Log = createLog('error'),
): Promise<TestService> {
  const config = loadConfig({
    STINT_DATABASE_URL: database.url,
    STINT_ADMIN_KEY: adminKey,
    STINT_HOST: '127.0.0.1',
    STINT_HTTP_PORT: '0',
    STINT_GRPC_PORT: '0',
    ...env,
  });
  const service: Service = await startService(config, log);
  const base = `http://127.0.0.1:${service.port}`;
  const grpc = `127.0.0.1:${service.grpcPort}`;
  grpcOf.set(base, grpc);
  const admin = clientFor(base, adminKey);
  return {
    database,
    base,
    grpc,
    adminKey,
    admin,
    tenant: (options) => newTenant(admin, options),
    sql: (text, params) => query(database.url, text, params ?? []),
    another: (more = {}) => startOn(database, adminKey, { ...env, ...more }, log),
    stop: () => service.stop(),
  };
}

/** A client with that key; of another instance on the same database, for instance. */
export function clientFor(base: string, key: string): Client {
  const request: Client['request'] = async (method, path, body, init = {}) => {
    const response = await fetch(base + path, {
      method,
      ...init,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(init.headers as Record<string, string> | undefined),
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json') ?? false;
    return { status: response.status, headers: response.headers, text, body: isJson ? JSON.parse(text) : undefined };
  };
  const client: Client = {
    base,
    key,
    request,
    get: (path) => request('GET', path),
    post: (path, body, init) => request('POST', path, body, init),
    put: (path, body) => request('PUT', path, body),
    patch: (path, body) => request('PATCH', path, body),
    delete: (path) => request('DELETE', path),
  };
  const target = OVER_GRPC ? grpcOf.get(base) : undefined;
  return target === undefined ? client : overGrpc(client, target);
}

const ALL_SCOPES = ['enqueue', 'work', 'read', 'manage'];

async function newTenant(
  admin: Client,
  { autoCreateQueues, scopes, name }: { autoCreateQueues?: boolean; scopes?: readonly string[]; name?: string } = {},
): Promise<Client> {
  const made = await admin.post('/v1/admin/tenants', {
    name: name ?? `t-${randomBytes(6).toString('hex')}`,
    autoCreateQueues,
  });
  assert.equal(made.status, 201, made.text);
  const key = await admin.post(`/v1/admin/tenants/${made.body.id}/keys`, { name: 'k', scopes: scopes ?? ALL_SCOPES });
  assert.equal(key.status, 201, key.text);
  return clientFor(admin.base, key.body.secret as string);
}

/** Waits until the condition holds; fails after the deadline with what it answered last. */
export async function until<T>(what: string, condition: () => Promise<T> | T, milliseconds = 10_000): Promise<T> {
  const deadline = performance.now() + milliseconds;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (performance.now() > deadline) assert.fail(`still not so after ${milliseconds} ms: ${what}`);
    await pause(20);
  }
}
