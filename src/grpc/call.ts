import type { Metadata } from '@grpc/grpc-js';
import type { Departure } from '../core/departure.js';
import type { Eventual } from '../core/eventual.js';
import type { Call } from '../core/invoke.js';
import { createRequestId } from '../core/request-id.js';

const PLAIN = /^[\x21-\x7e]{1,128}$/;

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
    const given = metadata.get('x-request-id')[0];
    this.requestId = typeof given === 'string' && PLAIN.test(given) ? given : createRequestId();
  }

  get authorization(): string | undefined {
    const given = this.metadata.get('authorization')[0];
    return typeof given === 'string' ? given : undefined;
  }
}
