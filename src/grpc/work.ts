import type { handleBidiStreamingCall } from '@grpc/grpc-js';
import { Departure } from '../core/departure.js';
import type { OpenStream } from '../core/open-stream.js';
import type { Operation } from '../core/operation.js';
import { ServiceError } from '../errors.js';
import { ageing } from './ageing.js';
import { GrpcCall } from './call.js';
import type { Codec } from './codec.js';
import { compileMessage } from './field-codec.js';
import type { Malformed } from './malformed.js';
import { SignsOfLife } from './signs-of-life.js';
import type { UnaryParts } from './unary.js';
import {
  type HeldJob,
  type Hello,
  type Settlement,
  type WorkCall,
  type WorkDoor,
  type WorkRequest,
  WorkStream,
} from './work-stream.js';

/** How long one lease of a stream waits; then it asks anew, with the credential anew. */
const WAIT_MS = 60_000;

/** The operations that a stream is made of: it can do nothing that calls cannot. */
export interface WorkOperations<Engine> {
  readonly lease: Operation<Engine>;
  readonly settle: Operation<Engine>;
}

export interface WorkParts<Engine> extends UnaryParts<Engine> {
  readonly open: OpenStream;
  /** A stream is asked to go a little before its connection is as old as this; 0: never. */
  readonly connectionSeconds: number;
}

export interface WorkHandler {
  readonly handle: handleBidiStreamingCall<WorkRequest | Malformed, object>;
  /** How many streams are open. */
  size(): number;
  /** Tells every stream that the service is about to stop. */
  drain(): void;
}

type Settles<T> = Readonly<Partial<Record<'heartbeats' | 'acks' | 'nacks' | 'releases', readonly T[]>>>;

interface Item {
  readonly leaseToken?: string;
}

interface Result {
  readonly outcome: string;
  /** Milliseconds. */
  readonly remaining?: number;
}

interface LeaseOutput {
  readonly jobs: readonly { readonly leaseToken: string; readonly visibilityTimeout: number }[];
}

/** The worker stream, made of the door's `Lease` and `Settle`. */
export function workHandler<Engine>(operations: WorkOperations<Engine>, parts: WorkParts<Engine>): WorkHandler {
  const { context } = parts;
  const codecs = {
    leaseIn: compileMessage(operations.lease.input, 'stint.v1.LeaseRequest', context),
    leaseOut: compileMessage(operations.lease.output, 'stint.v1.LeaseResponse', context),
    settleIn: compileMessage(operations.settle.input, 'stint.v1.SettleRequest', context),
    settleOut: compileMessage(operations.settle.output, 'stint.v1.SettleResponse', context),
  };
  const streams = new Set<WorkStream>();
  const signs = new SignsOfLife();
  let draining = false;

  const doorFor = (call: WorkCall): WorkDoor => {
    const { addressOf } = parts;
    const doorCall = (departure: Departure, read: () => unknown, withinStream: boolean): GrpcCall =>
      new GrpcCall(call, { departure, read, addressOf, withinStream });
    const opening = doorCall(new Departure(), () => undefined, false);
    const run = (operation: Operation<Engine>, departure: Departure, read: () => unknown): Promise<unknown> =>
      parts.invoke(operation, doorCall(departure, read, true));
    return {
      open: (end) => parts.open(operations.lease, opening, end),
      lease: async (hello, maxJobs, departure) => {
        const read = (): object => ({ ...leaseInput(codecs.leaseIn, hello), maxJobs, wait: WAIT_MS });
        const output = (await run(operations.lease, departure, read)) as LeaseOutput;
        const { jobs = [] } = codecs.leaseOut.write(output) as { readonly jobs?: readonly object[] };
        return output.jobs.map((job, index): HeldJob => ({ ...job, message: jobs[index]! }));
      },
      settle: async (items, departure) => {
        const output = await run(operations.settle, departure, () => codecs.settleIn.read(items, 'settle.items'));
        return settlementOf(items, output as Settles<Result>, codecs.settleOut);
      },
      statusOf: (error) => {
        const known =
          error instanceof ServiceError ? error : new ServiceError('INTERNAL', 'internal error', { cause: error });
        return parts.statusOf(known, opening.requestId);
      },
      signOfLife: async () => {
        const { session } = parts.exchanges.of(call.metadata);
        if (session !== undefined) await signs.of(session);
      },
    };
  };

  return {
    handle: (call) => {
      const stream: WorkStream = new WorkStream(call, doorFor(call), () => {
        clearTimeout(age);
        streams.delete(stream);
      });
      const age = ageing(stream, parts.connectionSeconds);
      streams.add(stream);
      parts.exchanges.of(call.metadata).departure.listen(() => stream.broken());
      // On its way when the others were told.
      if (draining) stream.drain();
    },
    size: () => streams.size,
    drain: () => {
      draining = true;
      for (const stream of [...streams]) stream.drain();
    },
  };
}

function leaseInput(codec: Codec, { queues, worker, visibilityTimeout }: Hello): object {
  return codec.read({ queues, worker, visibilityTimeout }, 'hello') as object;
}

/** Which leases are over for the worker that settled them, and which go on. */
function settlementOf(items: Settles<Item>, output: Settles<Result>, codec: Codec): Settlement {
  const ended: string[] = [];
  const extended: { leaseToken: string; remaining: number }[] = [];
  for (const verb of ['heartbeats', 'acks', 'nacks', 'releases'] as const) {
    for (const [index, { outcome, remaining = 0 }] of (output[verb] ?? []).entries()) {
      const leaseToken = items[verb]?.[index]?.leaseToken;
      if (leaseToken === undefined || outcome === 'INVALID') continue;
      if (verb === 'heartbeats' && outcome === 'OK') extended.push({ leaseToken, remaining });
      else ended.push(leaseToken);
    }
  }
  return { message: codec.write(output) as object, ended, extended };
}
