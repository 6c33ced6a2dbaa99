import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import type { ServiceError as CallError } from '@grpc/grpc-js';
import { errorOf } from '../helpers/grpc-client.js';
import { grpcClient, type GrpcClient } from '../helpers/grpc.js';
import type { Fleet, Instance } from './fleet.js';

export interface Reply {
  readonly status: number;
  readonly body: any;
}

const PATIENCE_MS = 15_000;

/**
 * A client's side of a load balancer. It gives a call to one instance in turn of those whose readiness was good when last looked at,
 * over connections that are kept. A call may be made again only where it cannot have had an effect: when the service has refused it and
 * said when to come back (`Retry-After`, RetryInfo; that long is waited), or when no connection could be made. All else is a failure: an
 * error without such an invitation, and an answer that never came or was cut off, whatever may have become of it.
 */
export class Balancer {
  readonly failures: string[] = [];
  /** Calls that were made again, by the reason. */
  readonly again = { refused: 0, unconnected: 0 };
  readonly #agents = new Map<Instance, Agent>();
  readonly #channels = new Map<Instance, { readonly generation: number; readonly client: GrpcClient }>();
  readonly #old: GrpcClient[] = [];
  #turn = 0;

  constructor(
    private readonly fleet: Fleet,
    private readonly key: string,
  ) {
    for (const instance of fleet.instances) this.#agents.set(instance, new Agent({ keepAlive: true }));
  }

  /** POSTs JSON; answers the first answer that is no refusal, and undefined for a failure. */
  async post(path: string, body: object): Promise<Reply | undefined> {
    return this.#tried(`POST ${path}`, async (instance) => {
      const reply = await this.#send(instance, path, JSON.stringify(body));
      if (reply.retryAfter === undefined) return reply;
      throw new Refused(reply.retryAfter);
    });
  }

  /** Makes a call of `stint.v1.Jobs`. */
  async call(method: string, message: object): Promise<any> {
    return this.#tried(method, async (instance) => {
      try {
        return await this.channel(instance).call('Jobs', method, message, { deadlineMs: PATIENCE_MS });
      } catch (error) {
        throw refusalOf(error as CallError) ?? error;
      }
    });
  }

  /** The next of the instances that are ready. */
  async pick(): Promise<Instance> {
    for (;;) {
      const ready = this.fleet.instances.filter((instance) => instance.ready);
      if (ready.length > 0) return ready[(this.#turn += 1) % ready.length]!;
      await pause(20);
    }
  }

  /** The channel to an instance, made anew when it was started anew, since an old one waits before it tries again. */
  channel(instance: Instance): GrpcClient {
    const known = this.#channels.get(instance);
    if (known?.generation === instance.generation) return known.client;
    if (known !== undefined) this.#old.push(known.client);
    const made = { generation: instance.generation, client: grpcClient(instance.grpc, this.key) };
    this.#channels.set(instance, made);
    return made.client;
  }

  close(): void {
    for (const agent of this.#agents.values()) agent.destroy();
    for (const client of [...this.#old, ...[...this.#channels.values()].map(({ client }) => client)]) client.close();
  }

  async #tried<T>(what: string, attempt: (instance: Instance) => Promise<T>): Promise<T | undefined> {
    for (const deadline = performance.now() + PATIENCE_MS; ;) {
      try {
        return await attempt(await this.pick());
      } catch (error) {
        const refused = error instanceof Refused;
        if ((!refused && !neverConnected(error)) || performance.now() > deadline) {
          this.failures.push(`${what}: ${String(error)}`);
          return undefined;
        }
        this.again[refused ? 'refused' : 'unconnected'] += 1;
        await pause(refused ? error.seconds * 1_000 : 50);
      }
    }
  }

  async #send(instance: Instance, path: string, body: string): Promise<Reply & { retryAfter: number | undefined }> {
    const outgoing = request(`${instance.base}${path}`, {
      method: 'POST',
      agent: this.#agents.get(instance)!,
      headers: { authorization: `Bearer ${this.key}`, 'content-type': 'application/json' },
    }).end(body);
    const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
    let text = '';
    for await (const chunk of answer.setEncoding('utf8')) text += chunk as string;
    const seconds = answer.headers['retry-after'];
    return {
      status: answer.statusCode!,
      body: JSON.parse(text),
      retryAfter: seconds === undefined ? undefined : Number(seconds),
    };
  }
}

class Refused extends Error {
  constructor(readonly seconds: number) {
    super(`refused for ${seconds} s`);
  }
}

function refusalOf(error: CallError): Refused | undefined {
  try {
    const { retryAfter } = errorOf(error);
    return retryAfter === undefined ? undefined : new Refused(retryAfter);
  } catch {
    // Not the service's own words.
    return undefined;
  }
}

function neverConnected(error: unknown): boolean {
  const { code, message } = error as NodeJS.ErrnoException;
  return code === 'ECONNREFUSED' || message.includes('No connection established');
}
