import { request as httpRequest, type IncomingHttpHeaders, type RequestOptions } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { Type } from 'typebox';
import { createAddressOf } from '../../src/core/address.js';
import type { Admission } from '../../src/core/admission.js';
import { createAdmit } from '../../src/core/admit.js';
import type { Departure } from '../../src/core/departure.js';
import { createInvoke } from '../../src/core/invoke.js';
import { type Caller, type Context, defineOperation, type Operation, type Scope } from '../../src/core/operation.js';
import { Duration, JsonText } from '../../src/core/wire.js';
import { type ErrorCode, ServiceError } from '../../src/errors.js';
import { createHttpServer, type HttpServer, type HttpServerOptions } from '../../src/http/server.js';
import { createLog } from '../../src/observability/log.js';
import { createMetrics, type Metrics } from '../../src/observability/metrics.js';

/** What the toy operations note and are steered by. */
export interface Toy {
  readonly inputs: unknown[];
  readonly departures: Departure[];
  /** Runs inside the operation `Wait`. */
  onWait: (context: Context<Toy>) => Promise<void>;
}

const Name = Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$' });

const echo = defineOperation<Toy, ReturnType<typeof echoInput>, ReturnType<typeof echoInput>>({
  name: 'Echo',
  group: 'Jobs',
  summary: 'Answers what it is given',
  scopes: ['enqueue'],
  http: [
    {
      method: 'POST',
      path: '/v1/queues/:queue/echo',
      status: (output) => ((output as { note?: string }).note === 'again' ? 200 : 201),
      statuses: [200, 201],
      headers: { 'idempotency-key': 'idempotencyKey' },
    },
    { method: 'POST', path: '/v1/fixed/:queue', suffix: 'Fixed', fixed: { note: 'fixed' }, omit: ['delay'] },
  ],
  input: echoInput(),
  output: echoInput(),
  example: { payload: { to: 'a@example.org' }, delay: '30s' },
  run: (context, input) => {
    context.engine.inputs.push(input);
    return Promise.resolve(input);
  },
});

function echoInput() {
  return Type.Object({
    queue: Name,
    note: Type.Optional(Type.String()),
    payload: Type.Optional(JsonText()),
    delay: Type.Optional(Duration({ minimum: 0, maximum: 60_000 })),
    idempotencyKey: Type.Optional(Type.String({ minLength: 1 })),
  });
}

const find = defineOperation({
  name: 'Find',
  group: 'Queues',
  summary: 'Takes its input from the query',
  scopes: ['read'],
  http: [{ method: 'GET', path: '/v1/queues/:queue/found' }],
  input: Type.Object({
    queue: Name,
    limit: Type.Optional(Type.Integer({ minimum: 1 })),
    all: Type.Optional(Type.Boolean()),
  }),
  output: Type.Object({ queue: Type.String(), limit: Type.Integer() }),
  run: (_context: Context<Toy>, input) => Promise.resolve({ queue: input.queue, limit: input.limit ?? 100 }),
});

const remove = defineOperation({
  name: 'Remove',
  group: 'Queues',
  summary: 'Takes nothing but its path',
  scopes: ['manage'],
  http: [
    { method: 'DELETE', path: '/v1/queues/:queue' },
    { method: 'POST', path: '/v1/queues/:queue/pause', suffix: 'ByPost' },
  ],
  input: Type.Object({ queue: Name }),
  output: Type.Object({ queue: Type.String() }),
  run: (_context: Context<Toy>, input) => Promise.resolve({ queue: input.queue }),
});

const wait = defineOperation({
  name: 'Wait',
  group: 'Jobs',
  summary: 'Waits as the test says',
  scopes: ['work'],
  http: [{ method: 'POST', path: '/v1/wait' }],
  input: Type.Object({}),
  output: Type.Object({ jobs: Type.Array(Type.String()) }),
  run: async (context: Context<Toy>) => {
    context.engine.departures.push(context.departure);
    await context.engine.onWait(context);
    return { jobs: [] };
  },
});

const fail = defineOperation({
  name: 'Fail',
  group: 'Jobs',
  summary: 'Fails as it is told',
  scopes: ['work'],
  http: [{ method: 'POST', path: '/v1/fail' }],
  input: Type.Object({ code: Type.String(), retryAfter: Type.Optional(Type.Integer()) }),
  output: Type.Object({ needed: Type.String() }),
  run: (_context: Context<Toy>, input) => {
    if (input.code === 'CRASH') throw new Error('the secret inside');
    if (input.code === 'BAD_OUTPUT') return Promise.resolve({} as { needed: string });
    const extra: Record<string, string> = input.code === 'LEASE_LOST' ? { settledAs: 'nack' } : {};
    throw new ServiceError(input.code as ErrorCode, 'as told', {
      extra,
      ...(input.retryAfter && { retryAfter: input.retryAfter }),
    });
  },
});

const double = defineOperation({
  name: 'Double',
  group: 'Jobs',
  summary: 'Has a form of its own over REST',
  scopes: ['work'],
  http: [
    {
      method: 'POST',
      path: '/v1/double/:id',
      form: {
        input: Type.Object({ id: Type.String(), by: Type.Integer() }),
        output: Type.Object({ only: Type.Integer() }),
        toInput: (input: { by: number }) => ({ items: [input.by] }),
        toOutput: (output: { items: number[] }) => ({ only: output.items[0]! }),
      },
    },
  ],
  input: Type.Object({ items: Type.Array(Type.Integer()) }),
  output: Type.Object({ items: Type.Array(Type.Integer()) }),
  run: (_context: Context<Toy>, input) => Promise.resolve({ items: input.items.map((item) => item * 2) }),
});

export const toyOperations: readonly Operation<Toy>[] = [echo, find, remove, wait, fail, double];

export interface ToyService {
  readonly toy: Toy;
  readonly port: number;
  readonly server: HttpServer;
  readonly metrics: Metrics;
  readonly logLines: string[];
}

/** Serves the toy operations on a free port until the test ends. */
export async function startToy(t: TestContext, options: Partial<HttpServerOptions<Toy>> = {}): Promise<ToyService> {
  const toy: Toy = { inputs: [], departures: [], onWait: () => Promise.resolve() };
  const metrics = createMetrics();
  const logLines: string[] = [];
  const log = createLog('info', { write: (line: string) => void logLines.push(line) });
  const refused = (): void => undefined;
  const admit = createAdmit({ authenticate, admission, refused });
  const server = await createHttpServer<Toy>({
    operations: toyOperations,
    invoke: createInvoke({ engine: toy, admit, admission, refused, metrics, log }),
    addressOf: createAddressOf([]),
    metrics,
    log,
    ready: () => Promise.resolve({ ok: true, detail: 'fine' }),
    version: '1.2.3',
    ...options,
  });
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  t.after(() => server.drain({ delaySeconds: 0, deadlineSeconds: 1, beforeClose: () => Promise.resolve() }));
  return { toy, port, server, metrics, logLines };
}

const TENANT = { id: 't1', name: 'acme', autoCreateQueues: true, limits: {} };

/** Nobody has a limit. */
const admission: Admission = {
  request: () => undefined,
  mayStore: () => undefined,
  jobs: () => () => undefined,
  begin: () => () => undefined,
};

async function authenticate(authorization: string | undefined): Promise<Caller> {
  await new Promise((resolve) => setImmediate(resolve));
  const scopes: Record<string, readonly Scope[]> = { 'Bearer all': ['enqueue', 'work', 'manage'], 'Bearer none': [] };
  const held = scopes[authorization ?? ''];
  if (held === undefined) throw new ServiceError('UNAUTHENTICATED', 'no such key');
  return {
    kind: 'key',
    id: 'k1',
    name: 'key',
    secretHash: undefined,
    scopes: new Set(held),
    queues: undefined,
    limits: {},
    expiresAt: undefined,
    tenant: TENANT,
  };
}

export interface Answered {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly json: any;
}

/** One request with the key of everything, as JSON where there is a body. */
export function send(
  port: number,
  target: string,
  body?: string | Buffer,
  options: RequestOptions = {},
): Promise<Answered> {
  const [method = 'GET', path = '/'] = target.split(' ');
  const given = options.headers as Record<string, string> | undefined;
  const headers: Record<string, string | number> = { authorization: 'Bearer all', ...given };
  if (body !== undefined) {
    headers['content-type'] ??= 'application/json';
    if (headers['transfer-encoding'] === undefined) headers['content-length'] = Buffer.byteLength(body);
  }
  return new Promise((resolve, reject) => {
    const request = httpRequest({ port, method, path, ...options, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const isJson = response.headers['content-type']?.includes('json') ?? false;
        resolve({
          status: response.statusCode!,
          headers: response.headers,
          text,
          json: isJson && text !== '' ? JSON.parse(text) : undefined,
        });
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}

/** A bare connection: what it has been sent so far, and whether the server has closed it. */
export interface RawConnection {
  readonly socket: Socket;
  received: string;
  closed: boolean;
}

export async function openRaw(port: number): Promise<RawConnection> {
  const socket = connect({ port, host: '127.0.0.1' });
  const raw: RawConnection = { socket, received: '', closed: false };
  socket.on('data', (chunk) => (raw.received += chunk.toString('latin1')));
  socket.on('end', () => (raw.closed = true));
  socket.on('close', () => (raw.closed = true));
  socket.on('error', () => (raw.closed = true));
  await new Promise((resolve) => socket.once('connect', resolve));
  return raw;
}

/** Polls until a condition holds; fails after `seconds`. */
export async function until(what: string, condition: () => boolean | Promise<boolean>, seconds = 5): Promise<void> {
  const deadline = performance.now() + seconds * 1000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
