import { type handleServerStreamingCall, Metadata, type UntypedServiceImplementation } from '@grpc/grpc-js';
import { Departure } from '../core/departure.js';
import type { OpenStream } from '../core/open-stream.js';
import type { Operation } from '../core/operation.js';
import { ServiceError } from '../errors.js';
import { ActivityStream } from './activity-stream.js';
import { ageing } from './ageing.js';
import { GrpcCall } from './call.js';
import { Malformed } from './malformed.js';
import { credentialOf, type ScaledObjectRef, triggerOf } from './trigger-metadata.js';
import { handlerOf, type MessageForm, type UnaryParts } from './unary.js';

/** The operations behind KEDA's calls. They are no rows of the table: their messages are KEDA's. */
export interface ScalerOperations<Engine> {
  readonly isActive: Operation<Engine>;
  readonly streamIsActive: Operation<Engine>;
  readonly getMetricSpec: Operation<Engine>;
  readonly getMetrics: Operation<Engine>;
}

export interface ScalerParts<Engine> extends Omit<UnaryParts<Engine>, 'context'> {
  readonly open: OpenStream;
  /** A stream is ended a little before its connection is as old as this; 0: never. */
  readonly connectionSeconds: number;
}

export interface Scaler {
  readonly implementation: UntypedServiceImplementation;
  /** How many streams are open. */
  size(): number;
  /** Ends every stream: the service is about to stop. */
  drain(): void;
}

interface MetricsRequest {
  readonly scaledObjectRef?: ScaledObjectRef;
  readonly metricName?: string;
}

interface Active {
  readonly active: boolean;
}

/** The service `externalscaler.ExternalScaler`, through the same door as everything else. */
export function createScaler<Engine>(operations: ScalerOperations<Engine>, parts: ScalerParts<Engine>): Scaler {
  const streams = new Set<ActivityStream>();
  let draining = false;

  const stream: handleServerStreamingCall<ScaledObjectRef | Malformed, object> = (call) => {
    const { request } = call;
    const authorization = request instanceof Malformed ? undefined : credentialOf(request);
    const doorCall = (departure: Departure, last: boolean | undefined, withinStream: boolean): GrpcCall =>
      new GrpcCall(call, {
        departure,
        read: () => {
          if (request instanceof Malformed) throw request.error;
          return { scalerMetadata: triggerOf(request), last };
        },
        addressOf: parts.addressOf,
        withinStream,
        authorization,
      });
    const opening = doorCall(new Departure(), undefined, false);
    const door = {
      open: (end: (error: ServiceError) => void) => parts.open(operations.streamIsActive, opening, end),
      look: async (last: boolean | undefined, departure: Departure) => {
        const output = await parts.invoke(operations.streamIsActive, doorCall(departure, last, true));
        return (output as Active).active;
      },
      statusOf: (error: unknown) => parts.statusOf(known(error), opening.requestId),
    };
    const headers = new Metadata();
    headers.set('x-request-id', opening.requestId);
    call.sendMetadata(headers);
    const one: ActivityStream = new ActivityStream(call, door, () => {
      clearTimeout(age);
      streams.delete(one);
    });
    const age = ageing(one, parts.connectionSeconds);
    streams.add(one);
    parts.exchanges.of(call.metadata).departure.listen(() => one.broken());
    if (draining) one.fail(new ServiceError('UNAVAILABLE', 'shutting down'));
    else void one.run();
  };

  return {
    implementation: {
      IsActive: handlerOf(
        operations.isActive,
        ofRef((output) => ({ result: (output as Active).active })),
        parts,
      ),
      StreamIsActive: stream,
      GetMetricSpec: handlerOf(operations.getMetricSpec, ofRef(specMessage), parts),
      GetMetrics: handlerOf(operations.getMetrics, METRICS_FORM, parts),
    },
    size: () => streams.size,
    drain: () => {
      draining = true;
      for (const one of [...streams]) one.drain();
    },
  };
}

function known(error: unknown): ServiceError {
  return error instanceof ServiceError ? error : new ServiceError('INTERNAL', 'internal error', { cause: error });
}

function ofRef(write: MessageForm['write']): MessageForm {
  return {
    read: (message) => ({ scalerMetadata: triggerOf(message) }),
    write,
    authorization: (message) => credentialOf(message),
  };
}

function specMessage(output: unknown): object {
  const { name, target } = output as { readonly name: string; readonly target: number };
  return { metricSpecs: [{ metricName: name, targetSize: Math.ceil(target), targetSizeFloat: target }] };
}

const METRICS_FORM: MessageForm = {
  read: (message) => {
    const { scaledObjectRef = {}, metricName } = message as MetricsRequest;
    // An empty name is one that is not given.
    const asked = metricName === undefined || metricName === '' ? {} : { metricName };
    return { scalerMetadata: triggerOf(scaledObjectRef), ...asked };
  },
  write: (output) => {
    const { name, value } = output as { readonly name: string; readonly value: number };
    return { metricValues: [{ metricName: name, metricValue: Math.ceil(value), metricValueFloat: value }] };
  },
  authorization: (message) => credentialOf((message as MetricsRequest).scaledObjectRef ?? {}),
};
