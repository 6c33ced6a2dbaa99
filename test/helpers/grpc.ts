import { fileURLToPath } from 'node:url';
import {
  type ClientDuplexStream,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { errorOf } from './grpc-client.js';

const definition = loadSync(
  [
    'stint/v1/jobs.proto',
    'stint/v1/queues.proto',
    'stint/v1/schedules.proto',
    'stint/v1/events.proto',
    'stint/v1/account.proto',
    'stint/v1/admin.proto',
  ],
  {
    includeDirs: [fileURLToPath(new URL('../../../proto', import.meta.url))],
    longs: Number,
    enums: String,
    defaults: true,
  },
);
const { stint } = loadPackageDefinition(definition) as any;

/** Otherwise all clients of a process share one. */
const OWN_CONNECTION = { 'grpc.use_local_subchannel_pool': 1 };

export interface CallOptions {
  readonly deadlineMs?: number;
  /** Given a function that cancels the call. */
  readonly onCall?: (cancel: () => void) => void;
}

/** A gRPC client of a user: messages in, messages out. */
export interface GrpcClient {
  /** Makes a unary call; rejects with the library's error. */
  call(
    service: 'Jobs' | 'Queues' | 'Schedules' | 'Events' | 'Account' | 'Admin',
    method: string,
    message: object,
    options?: CallOptions,
  ): Promise<any>;
  work(): WorkerStream;
  close(): void;
}

export interface WorkerStream {
  readonly stream: ClientDuplexStream<object, any>;
  readonly received: any[];
  /** The status that ended the stream. */
  readonly ended: Promise<{ readonly code: number; readonly details: string }>;
  send(message: object): void;
}

/** A client with that key, and with further metadata on every call. */
export function grpcClient(target: string, key: string, more: Readonly<Record<string, string>> = {}): GrpcClient {
  const services = Object.fromEntries(
    ['Jobs', 'Queues', 'Schedules', 'Events', 'Account', 'Admin'].map((name) => [
      name,
      new stint.v1[name](target, credentials.createInsecure(), OWN_CONNECTION),
    ]),
  );
  const metadata = (): Metadata => {
    const made = new Metadata();
    made.set('authorization', `Bearer ${key}`);
    for (const [name, value] of Object.entries(more)) made.set(name, value);
    return made;
  };
  return {
    call: (service, method, message, { deadlineMs, onCall } = {}) =>
      new Promise((resolve, reject) => {
        const options = deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs };
        const call = services[service][method](
          message,
          metadata(),
          options,
          (error: ServiceError | null, answer: any) => (error === null ? resolve(answer) : reject(error)),
        );
        onCall?.(() => call.cancel());
      }),
    work: () => {
      const stream = services['Jobs'].Work(metadata()) as ClientDuplexStream<object, any>;
      const received: any[] = [];
      stream.on('data', (message: any) => received.push(message));
      stream.on('error', () => undefined);
      const ended = new Promise<{ code: number; details: string }>((resolve) => stream.on('status', resolve));
      return { stream, received, ended, send: (message) => void stream.write(message) };
    },
    close: () => {
      for (const service of Object.values(services)) service.close();
    },
  };
}

/** Asserts on the code that the service gave, whatever the status is. */
export function codeOf(error: unknown): string {
  return errorOf(error as ServiceError).code;
}
