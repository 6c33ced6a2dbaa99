import { constants, type Http2Session } from 'node:http2';

/** Clients may ask whether the connection lives this often, with a second's tolerance for clocks and queues on the way. */
const SHORTEST_MS = 10_000 - 1_000;
/** As servers of gRPC do: twice too soon is let pass. */
const MOST_STRIKES = 2;

interface Record {
  last: number;
  strikes: number;
}

/**
 * Cuts connections whose clients ping more often than they may: https://github.com/grpc/grpc/blob/master/doc/keepalive.md. A ping after
 * something was sent to the client is always allowed: clients measure the bandwidth with it.
 */
export class Pings {
  readonly #records = new WeakMap<Http2Session, Record>();

  /** To be called for every call: only the first on a connection counts. */
  watch(session: Http2Session): void {
    if (this.#records.has(session)) return;
    const record: Record = { last: -Infinity, strikes: 0 };
    this.#records.set(session, record);
    session.on('ping', () => {
      const now = performance.now();
      record.strikes = now - record.last < SHORTEST_MS ? record.strikes + 1 : 0;
      record.last = now;
      if (record.strikes > MOST_STRIKES) cut(session);
    });
  }

  /** Something was sent on the connection. */
  sent(session: Http2Session): void {
    const record = this.#records.get(session);
    if (record !== undefined) Object.assign(record, { last: -Infinity, strikes: 0 });
  }
}

function cut(session: Http2Session): void {
  if (session.destroyed) return;
  session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, 0, Buffer.from('too_many_pings'));
  session.destroy();
}
