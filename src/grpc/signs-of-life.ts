import type { Http2Session } from 'node:http2';

/** Asks peers whether they live: one ping at a time on a connection, whoever asks. */
export class SignsOfLife {
  readonly #asked = new WeakMap<Http2Session, Promise<void>>();

  /** Settles when the peer has answered, and never when it does not. */
  of(session: Http2Session): Promise<void> {
    const asked = this.#asked.get(session) ?? this.#ask(session);
    this.#asked.set(session, asked);
    return asked;
  }

  #ask(session: Http2Session): Promise<void> {
    return new Promise((resolve) => {
      if (session.destroyed) return;
      const isSent = session.ping((error) => {
        this.#asked.delete(session);
        if (error === null) resolve();
      });
      // More pings than may be are unanswered; none of them is ours.
      if (!isSent) resolve();
    });
  }
}
