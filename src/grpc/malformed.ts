import { ServiceError } from '../errors.js';

/** What stands in the place of a message that could not be read: the library itself would call that an internal error. */
export class Malformed {
  readonly error = new ServiceError('INVALID_ARGUMENT', 'the message is not what its type says it is');
}

/** Reads a message, or says that it is malformed. */
export function tolerant(deserialize: (bytes: Buffer) => object): (bytes: Buffer) => object {
  return (bytes) => {
    try {
      return deserialize(bytes);
    } catch {
      return new Malformed();
    }
  };
}
