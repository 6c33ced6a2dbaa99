import type { Metadata } from '@grpc/grpc-js';
import type { Departure } from '../core/departure.js';
import type { Eventual } from '../core/eventual.js';
import type { Call } from '../core/invoke.js';
import { requestIdFrom } from '../core/request-id.js';

/** A call as the door sees it. */
export class GrpcCall implements Call {
  readonly transport = 'grpc';
  readonly memory = { presented: undefined };
  readonly requestId: string;

  constructor(
    private readonly metadata: Metadata,
    readonly departure: Departure,
    readonly read: () => Eventual<unknown>,
  ) {
    this.requestId = requestIdFrom(metadata.get('x-request-id')[0]);
  }

  get authorization(): string | undefined {
    const given = this.metadata.get('authorization')[0];
    return typeof given === 'string' ? given : undefined;
  }
}
