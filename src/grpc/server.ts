import { setTimeout as pause } from 'node:timers/promises';
import {
  type MethodDefinition,
  Server,
  type ServerCredentials,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { ReflectionService } from '@grpc/reflection';
import { HealthImplementation } from 'grpc-health-check';
import type { Call } from '../core/invoke.js';
import type { OpenStream } from '../core/open-stream.js';
import type { Operation } from '../core/operation.js';
import type { Log } from '../observability/log.js';
import { serverCredentials, type TlsFiles } from './certificates.js';
import type { GrpcCallParts } from './call.js';
import type { CodecContext } from './codec.js';
import { Exchanges } from './exchange.js';
import { tolerant } from './malformed.js';
import { Pings } from './pings.js';
import { Protos } from './protos.js';
import { reflectedDefinition } from './reflected.js';
import { createScaler, type ScalerOperations } from './scaler.js';
import { compileStatus } from './status.js';
import { unaryHandler } from './unary.js';
import { workHandler } from './work.js';

export interface GrpcServerOptions<Engine> {
  readonly operations: readonly Operation<Engine>[];
  readonly scaler: ScalerOperations<Engine>;
  readonly invoke: (operation: Operation<Engine>, call: Call) => Promise<unknown>;
  readonly open: OpenStream;
  readonly addressOf: GrpcCallParts['addressOf'];
  readonly log: Log;
  /** Plaintext without. */
  readonly tls?: TlsFiles | undefined;
  /** How long a connection is kept, about, before its calls are let end and its streams asked to go; 0: as long as it lives. */
  readonly connectionSeconds: number;
}

export interface GrpcDrainOptions {
  /** How long calls are still taken, for load balancers to notice. */
  readonly delaySeconds: number;
  /** When the rest is cut off, from the beginning. */
  readonly deadlineSeconds: number;
  /** Called when no new call is taken any more and every stream has been asked to go; what streams wait for may end then. */
  readonly onClosed?: () => void;
}

export interface GrpcServer {
  /** Starts to listen; port 0 takes a free one. Rejects with what stands in the way. */
  listen(address: { readonly host: string; readonly port: number }): Promise<{ readonly port: number }>;
  /** How many streams are open: of workers, and of KEDA. */
  streams(): number;
  /**
   * Shuts down without losing an answer: not serving first, then no new calls, then streams are asked to go and calls under way are
   * finished. To be called once.
   */
  drain(options: GrpcDrainOptions): Promise<void>;
}

/** Longer than a lease may wait. */
const GRACE_MS = 75_000;
const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;
const SERVICES = ['Jobs', 'Queues', 'Schedules', 'Events', 'Account', 'Admin'] as const;
const SCALER = 'externalscaler.ExternalScaler';

/** The gRPC transport: a handler for every operation of the table, KEDA's external scaler, health, and reflection. */
export function createGrpcServer<Engine>(options: GrpcServerOptions<Engine>): GrpcServer {
  const { operations, invoke, open, addressOf, log, connectionSeconds } = options;
  const protos = new Protos();
  const exchanges = new Exchanges(new Pings());
  const server = new Server({
    interceptors: [exchanges.interceptor],
    'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
    // A client that is gone without a word is noticed, and what it waited for goes to others.
    'grpc.keepalive_time_ms': 20_000,
    'grpc.keepalive_timeout_ms': 10_000,
    ...(connectionSeconds > 0 && {
      'grpc.max_connection_age_ms': connectionSeconds * 1_000,
      'grpc.max_connection_age_grace_ms': GRACE_MS,
    }),
  });
  const context: CodecContext = { protos, onEnum: () => undefined };
  const parts = { invoke, open, addressOf, exchanges, statusOf: compileStatus(protos), context, log };
  const named = (name: string): Operation<Engine> => operations.find((operation) => operation.name === name)!;
  const work = workHandler({ lease: named('Lease'), settle: named('Settle') }, { ...parts, connectionSeconds });
  for (const name of SERVICES) {
    const own = operations.filter(({ group }) => group === name);
    const definition = readable(protos.service(name));
    const implementation: UntypedServiceImplementation = {};
    for (const operation of own) {
      implementation[operation.name] = unaryHandler(operation, messagesOf(definition, operation.name), parts);
    }
    if (name === 'Jobs') implementation['Work'] = work.handle;
    const missing = Object.keys(definition).find((method) => implementation[method] === undefined);
    if (missing !== undefined) throw new Error(`stint.v1.${name}.${missing} is not in the table`);
    server.addService(definition, implementation);
  }
  const scaler = createScaler(options.scaler, { ...parts, connectionSeconds });
  server.addService(readable(protos.service('ExternalScaler', 'externalscaler')), scaler.implementation);
  const health = new HealthImplementation();
  const setHealth = (serving: boolean): void => {
    for (const name of ['', ...SERVICES.map((service) => `stint.v1.${service}`), SCALER])
      health.setStatus(name, serving ? 'SERVING' : 'NOT_SERVING');
  };
  setHealth(true);
  health.addToServer(server);
  new ReflectionService(reflectedDefinition()).addToServer(server);
  return {
    listen: async (address) => listen(server, address, await serverCredentials(options.tls, log)),
    streams: () => work.size() + scaler.size(),
    drain: async (how) => {
      setHealth(false);
      await drain(server, how, () => {
        work.drain();
        scaler.drain();
        how.onClosed?.();
      });
    },
  };
}

/** The same service, of which a message that cannot be read reaches its handler, which says so. */
function readable(definition: ServiceDefinition): ServiceDefinition {
  const methods = Object.entries(definition).map(([name, method]) => {
    const { requestDeserialize } = method as MethodDefinition<object, object>;
    return [name, { ...method, requestDeserialize: tolerant(requestDeserialize) }] as const;
  });
  return Object.fromEntries(methods);
}

function messagesOf(definition: ServiceDefinition, name: string) {
  const method = definition[name] as (MethodDefinition<object, object> & Typed) | undefined;
  if (method === undefined) throw new Error(`${name} is in the table, but not in proto`);
  return { request: `stint.v1.${method.requestType.type.name}`, response: `stint.v1.${method.responseType.type.name}` };
}

interface Typed {
  readonly requestType: { readonly type: { readonly name: string } };
  readonly responseType: { readonly type: { readonly name: string } };
}

function listen(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
  credentials: ServerCredentials,
) {
  const address = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  return new Promise<{ readonly port: number }>((resolve, reject) => {
    server.bindAsync(address, credentials, (error, bound) => {
      if (error === null) resolve({ port: bound });
      else reject(error);
    });
  });
}

async function drain(
  server: Server,
  { delaySeconds, deadlineSeconds }: GrpcDrainOptions,
  drainStreams: () => void,
): Promise<void> {
  const deadline = performance.now() + deadlineSeconds * 1_000;
  await pause(Math.min(delaySeconds, deadlineSeconds) * 1_000);
  const done = new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
  // After the clients of these connections have been told to make new ones, or a worker would come back to this instance.
  drainStreams();
  const late = new AbortController();
  await Promise.race([
    done,
    pause(Math.max(0, deadline - performance.now()), undefined, { signal: late.signal }).catch(() => undefined),
  ]);
  late.abort();
  server.forceShutdown();
}
