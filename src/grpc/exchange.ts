import {
  type Metadata,
  ResponderBuilder,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  status as STATUS,
} from '@grpc/grpc-js';
import type { Http2Session, ServerHttp2Stream } from 'node:http2';
import { Departure } from '../core/departure.js';
import type { Pings } from './pings.js';

/** One call, from its headers' arrival until its answer is handed to the system or the caller is gone. */
export interface GrpcExchange {
  /** Of the caller, before it has the answer. */
  readonly departure: Departure;
  /** The connection beneath, where the library shows it. */
  readonly session: Http2Session | undefined;
}

/**
 * Follows every call from beneath its handler, where alone it can be seen whether an answer was written: the library tells a handler of a
 * call that has ended in the same way whether it was answered or broken off. A handler finds its exchange by the call's metadata.
 */
export class Exchanges {
  constructor(private readonly pings: Pings) {}

  readonly #all = new WeakMap<Metadata, GrpcExchange>();

  /** What the server is to run for every call. */
  readonly interceptor: ServerInterceptor = (_method, call) => {
    const session = sessionOf(call);
    if (session !== undefined) this.pings.watch(session);
    const departure = new Departure();
    let handedOver = false;
    const listener = new ServerListenerBuilder()
      .withOnReceiveMetadata((metadata, next) => {
        this.#all.set(metadata, { departure, session });
        next(metadata);
      })
      .withOnCancel(() => {
        if (!handedOver) departure.tell();
      })
      .build();
    const responder = new ResponderBuilder()
      .withStart((next) => next(listener))
      .withSendMessage((message, next) => {
        if (session !== undefined) this.pings.sent(session);
        next(message);
      })
      // An answer's status is sent when its message has been written.
      .withSendStatus((status, next) => {
        handedOver = status.code === STATUS.OK;
        next(status);
      })
      .build();
    return new ServerInterceptingCall(call, responder);
  };

  of(metadata: Metadata): GrpcExchange {
    const exchange = this.#all.get(metadata);
    if (exchange === undefined) throw new Error('a call came past the interceptor');
    return exchange;
  }
}

/** The connection beneath a call, which the library does not show otherwise. */
function sessionOf(call: object): Http2Session | undefined {
  return (call as { readonly stream?: ServerHttp2Stream }).stream?.session;
}
