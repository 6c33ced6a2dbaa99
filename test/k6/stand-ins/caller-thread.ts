import type { MessagePort } from 'node:worker_threads';
import { workerData } from 'node:worker_threads';
import type { GrpcCall, HttpAnswer, HttpCall } from './caller.js';
import { callGrpc } from './grpc-call.js';

const { port, answered } = workerData as { port: MessagePort; answered: Int32Array };

port.on('message', (call: HttpCall | GrpcCall) => {
  const made = call.kind === 'http' ? callHttp(call) : callGrpc(call);
  void made
    .catch((error: unknown) => ({ fault: error instanceof Error ? error.message : String(error) }))
    .then((answer) => {
      port.postMessage(answer);
      Atomics.store(answered, 0, 1);
      Atomics.notify(answered, 0);
    });
});

async function callHttp({ method, url, headers, body, timeoutMs }: HttpCall): Promise<HttpAnswer> {
  const start = performance.now();
  const took = (): number => performance.now() - start;
  try {
    const response = await fetch(url, { method, headers, body, signal: AbortSignal.timeout(timeoutMs) });
    const text = await response.text();
    return {
      status: response.status,
      error: '',
      headers: Object.fromEntries(response.headers),
      body: text,
      milliseconds: took(),
    };
  } catch (error) {
    const { cause, message } = error as Error;
    const said = cause instanceof Error ? `${cause.message} ${String((cause as { code?: string }).code)}` : message;
    return { status: 0, error: said, headers: {}, body: '', milliseconds: took() };
  }
}
