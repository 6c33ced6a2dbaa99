import type { Protos } from './protos.js';

/** How values of one kind come out of messages and go into them. */
export interface Codec {
  /** Brings a value into the form of the service. Throws INVALID_ARGUMENT about `path`. */
  readonly read: (value: unknown, path: string) => unknown;
  /** Brings it into the form of the message. */
  readonly write: (value: unknown) => unknown;
}

export interface CodecContext {
  readonly protos: Protos;
  /** Told which values of which enum are used: what nobody uses does not belong into the contract. */
  readonly onEnum: (name: string, values: readonly string[]) => void;
}
