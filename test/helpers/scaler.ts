import { fileURLToPath } from 'node:url';
import {
  type ClientReadableStream,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const definition = loadSync('externalscaler/externalscaler.proto', {
  includeDirs: [fileURLToPath(new URL('../../../proto', import.meta.url))],
  longs: Number,
  defaults: true,
});
const { externalscaler } = loadPackageDefinition(definition) as any;

/** A trigger's metadata, as KEDA sends them: its own keys among them. */
export type TriggerMetadata = Readonly<Record<string, string>>;

/** A client as KEDA is one. */
export interface ScalerClient {
  isActive(metadata: TriggerMetadata, authorization?: string): Promise<boolean>;
  getMetricSpec(
    metadata: TriggerMetadata,
  ): Promise<{ metricName: string; targetSize: number; targetSizeFloat: number }>;
  getMetrics(
    metadata: TriggerMetadata,
    metricName?: string,
  ): Promise<{ metricName: string; metricValue: number; metricValueFloat: number }>;
  stream(metadata: TriggerMetadata): ActivityStream;
  close(): void;
}

export interface ActivityStream {
  readonly received: boolean[];
  /** The status that ended it. */
  readonly ended: Promise<{ readonly code: number; readonly details: string }>;
  cancel(): void;
}

export function scalerClient(target: string): ScalerClient {
  const client = new externalscaler.ExternalScaler(target, credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
  });
  const ref = (metadata: TriggerMetadata): object => ({
    name: 'worker',
    namespace: 'acme',
    scalerMetadata: { scalerAddress: target, ...metadata },
  });
  const call = (method: string, message: object, authorization?: string): Promise<any> =>
    new Promise((resolve, reject) => {
      const headers = new Metadata();
      if (authorization !== undefined) headers.set('authorization', authorization);
      client[method](message, headers, (error: ServiceError | null, answer: any) =>
        error === null ? resolve(answer) : reject(error),
      );
    });
  return {
    isActive: async (metadata, authorization) => (await call('IsActive', ref(metadata), authorization)).result,
    getMetricSpec: async (metadata) => (await call('GetMetricSpec', ref(metadata))).metricSpecs[0],
    getMetrics: async (metadata, metricName = '') =>
      (await call('GetMetrics', { scaledObjectRef: ref(metadata), metricName })).metricValues[0],
    stream: (metadata) => {
      const stream = client.StreamIsActive(ref(metadata)) as ClientReadableStream<{ result: boolean }>;
      const received: boolean[] = [];
      stream.on('data', ({ result }) => received.push(result));
      stream.on('error', () => undefined);
      const ended = new Promise<{ code: number; details: string }>((resolve) => stream.on('status', resolve));
      return { received, ended, cancel: () => stream.cancel() };
    },
    close: () => client.close(),
  };
}
