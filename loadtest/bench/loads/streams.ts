import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type ClientDuplexStream, credentials, loadPackageDefinition, Metadata } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import type { StreamLoad, UnaryLoad } from '../messages.js';
import type { Scene } from './scene.js';

interface LeasedJob {
  readonly leaseToken: string;
}

interface WorkResponse {
  readonly jobs?: { readonly jobs?: readonly LeasedJob[] };
  readonly settled?: { readonly results: { readonly acks?: readonly { readonly outcome: string }[] } };
}

interface Jobs {
  Work(metadata: Metadata): ClientDuplexStream<object, WorkResponse>;
  Lease(message: object, metadata: Metadata, done: Done<{ readonly jobs?: readonly LeasedJob[] }>): void;
  Ack(
    message: object,
    metadata: Metadata,
    done: Done<{ readonly results: readonly { readonly outcome: string }[] }>,
  ): void;
  close(): void;
}

type Done<T> = (error: Error | null, answer?: T) => void;

const OWN_CONNECTION = { 'grpc.use_local_subchannel_pool': 1 };

/** Worker streams that ack what they are sent, a message of acks for each message of jobs, until stopped. */
export async function streamLoad({ target, streams, credits, queue }: StreamLoad, scene: Scene): Promise<void> {
  const client = connector()(target.bases[0]!);
  const all = Array.from({ length: streams }, () => {
    const stream = client.Work(metadataOf(target.key));
    stream.on('error', (error) => scene.stop.aborted || scene.tally.error(error.message));
    stream.on('data', ({ jobs, settled }: WorkResponse) => {
      const leased = jobs?.jobs ?? [];
      if (leased.length > 0) {
        scene.tally.count('leased', leased.length);
        stream.write({ settle: { items: { acks: leased.map(({ leaseToken }) => ({ leaseToken })) } } });
      }
      const acked = (settled?.results.acks ?? []).filter(({ outcome }) => outcome === 'SETTLE_OUTCOME_OK').length;
      if (acked > 0) scene.tally.count('acked', acked);
    });
    stream.write({ hello: { queues: [{ name: queue }], credits } });
    return stream;
  });
  await stopped(scene.stop);
  await Promise.all(all.map(ended));
  client.close();
}

/** Connections of which each leases one job, acks it, and so on, until stopped. */
export async function unaryLoad({ target, connections, queue }: UnaryLoad, scene: Scene): Promise<void> {
  const metadata = metadataOf(target.key);
  const connect = connector();
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const client = connect(target.bases[0]!);
      while (!scene.stop.aborted) {
        try {
          const { jobs = [] } = await called<{ jobs?: readonly LeasedJob[] }>((done) =>
            client.Lease({ queue, maxJobs: 1, wait: { seconds: 1 } }, metadata, done),
          );
          for (const { leaseToken } of jobs) {
            scene.tally.count('leased');
            const { results } = await called<{ results: readonly { outcome: string }[] }>((done) =>
              client.Ack({ items: [{ leaseToken }] }, metadata, done),
            );
            if (results[0]!.outcome === 'SETTLE_OUTCOME_OK') scene.tally.count('acked');
          }
        } catch (error) {
          scene.tally.error((error as Error).message);
        }
      }
      client.close();
    }),
  );
}

type Connect = (target: string) => Jobs;

/** Loads the contract. */
function connector(): Connect {
  const definition = loadSync('stint/v1/jobs.proto', {
    includeDirs: [fileURLToPath(new URL('../../../../proto', import.meta.url))],
    longs: Number,
    enums: String,
  });
  const { stint } = loadPackageDefinition(definition) as unknown as {
    readonly stint: { readonly v1: { readonly Jobs: new (...args: readonly unknown[]) => Jobs } };
  };
  return (target) => new stint.v1.Jobs(target, credentials.createInsecure(), OWN_CONNECTION);
}

function metadataOf(key: string): Metadata {
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${key}`);
  return metadata;
}

function called<T>(call: (done: Done<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    call((error, answer) => {
      if (error === null) resolve(answer!);
      else reject(error);
    });
  });
}

function stopped(stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => stop.addEventListener('abort', () => resolve(), { once: true }));
}

/** Ends the worker's side; what it was sent and has not acked is left to its lease. */
async function ended(stream: ClientDuplexStream<object, WorkResponse>): Promise<void> {
  const over = new Promise<void>((resolve) => stream.on('status', () => resolve()));
  stream.end();
  await Promise.race([over, pause(5_000)]);
}
