import type { Metadata } from '@grpc/grpc-js';
import type { RateState } from '../core/admission.js';
import type { Departure } from '../core/departure.js';
import type { Eventual } from '../core/eventual.js';
import type { Call } from '../core/invoke.js';
import { requestIdFrom } from '../core/request-id.js';

/** What the library knows of a call. */
export interface ServerCall {
  readonly metadata: Metadata;
  /** The peer's address, a colon and its port. */
  getPeer(): string;
}

export interface GrpcCallParts {
  readonly departure: Departure;
  readonly read: () => Eventual<unknown>;
  /** Where a call comes from, by its peer and what proxies say of it. */
  readonly addressOf: (peer: string | undefined, forwardedFor: string | undefined) => string;
  /** Made by a stream for its worker. */
  readonly withinStream?: boolean;
  /** In place of the metadata of that name, for a caller who cannot send any. */
  readonly authorization?: string | undefined;
}

/** A call as the door sees it. */
export class GrpcCall implements Call {
  readonly transport = 'grpc';
  readonly memory = { presented: undefined };
  readonly requestId: string;
  rate: RateState | undefined;

  constructor(
    private readonly call: ServerCall,
    private readonly parts: GrpcCallParts,
  ) {
    this.requestId = requestIdFrom(call.metadata.get('x-request-id')[0]);
  }

  get departure(): Departure {
    return this.parts.departure;
  }

  get withinStream(): boolean {
    return this.parts.withinStream ?? false;
  }

  get address(): string {
    const peer = this.call.getPeer();
    const forwardedFor = this.call.metadata.get('x-forwarded-for').join(',');
    return this.parts.addressOf(peer.slice(0, peer.lastIndexOf(':')), forwardedFor || undefined);
  }

  get authorization(): string | undefined {
    const given = this.call.metadata.get('authorization')[0];
    return typeof given === 'string' ? given : this.parts.authorization;
  }

  get traceparent(): string | undefined {
    return this.#trace('traceparent');
  }

  get tracestate(): string | undefined {
    return this.#trace('tracestate');
  }

  #trace(name: string): string | undefined {
    const given = this.call.metadata.get(name);
    return given.length === 0 ? undefined : given.join(',');
  }

  read(): Eventual<unknown> {
    return this.parts.read();
  }
}
