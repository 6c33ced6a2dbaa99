import { ServiceError } from '../errors.js';

/** What stands in the place of a message that could not be read: the library itself would call that an internal error. */
export class Malformed {
  readonly error: ServiceError;

  constructor(message: string) {
    this.error = new ServiceError('INVALID_ARGUMENT', message);
  }
}

const REPLACEMENT = '\ufffd';
/** The one field of a request that is called so. */
const NACK_ERROR = 'error';
const REPLACEMENT_BYTES = Buffer.from(REPLACEMENT);

/**
 * Reads a message, or says that it is malformed. The library puts a replacement character where a string is not UTF-8, and so changes it
 * in silence; a message that has more of them than its bytes had is refused. Not for the error of a nack, which is kept as well as it can be.
 */
export function tolerant(
  deserialize: (bytes: Buffer) => object,
  serialize: (message: object) => Buffer,
): (bytes: Buffer) => object {
  return (bytes) => {
    try {
      const message = deserialize(bytes);
      const isChanged =
        hasReplacement(message) && replacementsIn(serialize(withoutErrors(message) as object)) > replacementsIn(bytes);
      return isChanged ? new Malformed('a string of the message is not valid UTF-8') : message;
    } catch {
      return new Malformed('the message is not what its type says it is');
    }
  };
}

function hasReplacement(value: unknown): boolean {
  if (typeof value === 'string') return value.includes(REPLACEMENT);
  if (typeof value !== 'object' || value === null || Buffer.isBuffer(value)) return false;
  if (Array.isArray(value)) return value.some(hasReplacement);
  return Object.entries(value).some(
    ([name, member]) => name !== NACK_ERROR && (hasReplacement(name) || hasReplacement(member)),
  );
}

function withoutErrors(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Buffer.isBuffer(value)) return value;
  if (Array.isArray(value)) return value.map(withoutErrors);
  const members = Object.entries(value).filter(([name]) => name !== NACK_ERROR);
  return Object.fromEntries(members.map(([name, member]) => [name, withoutErrors(member)]));
}

function replacementsIn(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(REPLACEMENT_BYTES); at >= 0; at = bytes.indexOf(REPLACEMENT_BYTES, at + 3)) count += 1;
  return count;
}
