import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Caller } from './caller.js';
import { type CpuQuota, limitCpu } from './cpu-quota.js';
import { NODE_FLAGS } from './node-flags.js';

const PROGRAM = fileURLToPath(new URL('../../src/main.js', import.meta.url));
const START_MS = 60_000;
const SCOPES = ['enqueue', 'work', 'read', 'manage'];

export interface ServiceOptions {
  /** Of its database. */
  readonly url: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Of an instance that serves the same database. */
  readonly like?: BenchService;
  /** Thousandths of a processor it may use. */
  readonly millicores?: number;
}

/** The service in a process of its own, and a tenant on it. */
export interface BenchService {
  readonly base: string;
  /** `host:port` of gRPC. */
  readonly grpc: string;
  readonly pid: number;
  readonly url: string;
  readonly adminKey: string;
  /** Of the tenant. */
  readonly key: string;
  readonly tenantId: string;
  /** Makes the queue if there is none, and sets what is named. */
  queue(name: string, settings?: Readonly<Record<string, unknown>>): Promise<void>;
  /** The sum of a metric over all its labels, or over those that hold `label`. */
  metric(name: string, label?: string): Promise<number>;
  metrics(): Promise<string>;
  stop(): Promise<void>;
}

export async function startService(options: ServiceOptions): Promise<BenchService> {
  const adminKey = options.like?.adminKey ?? `bench-admin-${randomBytes(16).toString('hex')}`;
  const child = launch(options, adminKey);
  const quota = options.millicores === undefined ? undefined : await limitCpu(child.pid!, options.millicores);
  try {
    const { base, grpc } = await addressesOf(child);
    const tenant = options.like ?? (await createTenant(base, adminKey));
    return describe(child, { ...options, base, grpc, adminKey, tenant, quota });
  } catch (error) {
    await end(child, quota);
    throw error;
  }
}

function launch({ url, env }: ServiceOptions, adminKey: string): ChildProcess {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('STINT_'));
  return spawn(process.execPath, [...NODE_FLAGS, PROGRAM, 'serve'], {
    env: {
      ...Object.fromEntries(inherited),
      STINT_DATABASE_URL: url,
      STINT_ADMIN_KEY: adminKey,
      STINT_HOST: '127.0.0.1',
      STINT_HTTP_PORT: '0',
      STINT_GRPC_PORT: '0',
      STINT_LOG_LEVEL: 'error',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

async function addressesOf(child: ChildProcess): Promise<{ readonly base: string; readonly grpc: string }> {
  let output = '';
  child.stdout!.setEncoding('utf8').on('data', (text: string) => (output += text));
  for (const deadline = performance.now() + START_MS; performance.now() < deadline; await pause(20)) {
    const found = /Stint is ready at (http:\/\/\S+) .*gRPC at (\S+)\.$/m.exec(output);
    if (found !== null) return { base: found[1]!, grpc: found[2]! };
    if (child.exitCode !== null) break;
  }
  throw new Error(`the service did not start: ${output}`);
}

/** A tenant and a key of it, which may do everything within its limits. */
export async function createTenant(
  base: string,
  adminKey: string,
  limits: Readonly<Record<string, number>> = {},
): Promise<{ key: string; tenantId: string }> {
  const admin = new Caller(base, adminKey);
  try {
    const name = `bench-${randomBytes(6).toString('hex')}`;
    const tenant = await ask<{ id: string }>(admin, 'POST', '/v1/admin/tenants', { name, limits });
    const keys = `/v1/admin/tenants/${tenant.id}/keys`;
    const key = await ask<{ secret: string }>(admin, 'POST', keys, { name: 'bench', scopes: SCOPES });
    return { key: key.secret, tenantId: tenant.id };
  } finally {
    await admin.close();
  }
}

async function ask<T>(caller: Caller, method: 'GET' | 'POST' | 'PUT', path: string, body?: unknown): Promise<T> {
  const answer = await caller.call(method, path, body === undefined ? undefined : JSON.stringify(body));
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
  return JSON.parse(answer.text) as T;
}

interface Parts {
  readonly url: string;
  readonly base: string;
  readonly grpc: string;
  readonly adminKey: string;
  readonly tenant: { readonly key: string; readonly tenantId: string };
  readonly quota: CpuQuota | undefined;
}

function describe(child: ChildProcess, { url, base, grpc, adminKey, tenant, quota }: Parts): BenchService {
  const caller = new Caller(base, tenant.key);
  const metrics = async (): Promise<string> => (await caller.call('GET', '/metrics')).text;
  return {
    base,
    grpc,
    pid: child.pid!,
    url,
    adminKey,
    key: tenant.key,
    tenantId: tenant.tenantId,
    metrics,
    queue: async (name, settings = {}) => {
      await ask(caller, 'PUT', `/v1/queues/${name}`, settings);
    },
    metric: async (name, label = '') => {
      const lines = (await metrics()).split('\n');
      return lines
        .filter((line) => (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && line.includes(label))
        .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
    },
    stop: async () => {
      await caller.close();
      await end(child, quota);
    },
  };
}

async function end(child: ChildProcess, quota: CpuQuota | undefined): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  }
  await quota?.remove();
}
