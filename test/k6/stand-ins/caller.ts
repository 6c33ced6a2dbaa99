import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads';

export interface HttpCall {
  readonly kind: 'http';
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  readonly timeoutMs: number;
}

export interface GrpcCall {
  readonly kind: 'grpc';
  readonly target: string;
  /** The contract's directory. */
  readonly proto: string;
  /** `package.Service/Method`. */
  readonly method: string;
  /** In the JSON form of protobuf. */
  readonly message: object;
  readonly metadata: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

export interface HttpAnswer {
  /** 0 when there was no answer. */
  readonly status: number;
  readonly error: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly milliseconds: number;
}

export interface GrpcAnswer {
  readonly status: number;
  readonly error: string;
  /** In the JSON form of protobuf. */
  readonly message: object | null;
  readonly milliseconds: number;
}

const { port1: here, port2: there } = new MessageChannel();
const answered = new Int32Array(new SharedArrayBuffer(4));
const thread = new Worker(new URL('./caller-thread.js', import.meta.url), {
  workerData: { port: there, answered },
  transferList: [there],
});
thread.unref();

/** Makes a call and blocks until it is answered, as k6 does: a thread makes it meanwhile. */
export function callSync(call: HttpCall): HttpAnswer;
export function callSync(call: GrpcCall): GrpcAnswer;
export function callSync(call: HttpCall | GrpcCall): HttpAnswer | GrpcAnswer {
  Atomics.store(answered, 0, 0);
  here.postMessage(call);
  if (Atomics.wait(answered, 0, 0, call.timeoutMs + 10_000) === 'timed-out') throw new Error('the thread is gone');
  const received = receiveMessageOnPort(here)!.message as HttpAnswer | GrpcAnswer | { readonly fault: string };
  if ('fault' in received) throw new Error(received.fault);
  return received;
}
