import { joinPath } from '../core/field-path.js';
import { UTF8_HINT } from '../core/payload.js';
import { invalidField, ServiceError } from '../errors.js';

/** What stands in the place of a message that could not be read: the library itself would call that an internal error. */
export class Malformed {
  constructor(readonly error: ServiceError) {}
}

type Deserialize = (bytes: Buffer) => object;

const REPLACEMENT = '\ufffd';
const REPLACEMENT_BYTES = Buffer.from(REPLACEMENT);
const PLAIN_BYTES = Buffer.from('???');

/**
 * Reads a message, or says that it is malformed. The library puts a replacement character where a string is not UTF-8, and so changes it
 * in silence; such a message is refused. Not for the error of a nack, which is kept as well as it can be.
 */
export const tolerant =
  (deserialize: Deserialize) =>
  (bytes: Buffer): object => {
    try {
      const message = deserialize(bytes);
      const field = replacedIn(message) === undefined ? undefined : replacedIn(deserialize(withoutReplacements(bytes)));
      return field === undefined ? message : new Malformed(invalidField(field, UTF8_HINT));
    } catch {
      return new Malformed(new ServiceError('INVALID_ARGUMENT', 'the message is not what its type says it is'));
    }
  };

/** The path of the first string that has a replacement character, and of a map for its key. */
function replacedIn(message: unknown): string | undefined {
  if (typeof message === 'string') return message.includes(REPLACEMENT) ? '' : undefined;
  if (typeof message !== 'object' || message === null || Buffer.isBuffer(message)) return undefined;
  for (const [name, member] of Object.entries(message)) {
    if (isNackError(name, member)) continue;
    if (name.includes(REPLACEMENT)) return '';
    const inner = replacedIn(member);
    if (inner !== undefined) return joinPath(Array.isArray(message) ? Number(name) : name, inner);
  }
  return undefined;
}

/** Requests have no other message of that name; a header of that name is a string. */
function isNackError(name: string, member: unknown): boolean {
  return name === 'error' && typeof member === 'object';
}

/** The same message with other characters, as long, for the replacement characters that were sent: those it then has are the library's. */
function withoutReplacements(bytes: Buffer): Buffer {
  const plain = Buffer.from(bytes);
  for (let at = plain.indexOf(REPLACEMENT_BYTES); at >= 0; at = plain.indexOf(REPLACEMENT_BYTES, at + 3)) {
    PLAIN_BYTES.copy(plain, at);
  }
  return plain;
}
