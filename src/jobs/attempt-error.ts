import { type Static, Type } from 'typebox';
import { compileDecoder } from '../core/decode.js';
import { scanObject } from '../core/body-scan.js';
import { JsonText } from '../core/wire.js';

const fields = {
  message: Type.String(),
  type: Type.Optional(Type.String()),
  detail: Type.Optional(JsonText({ description: 'Any JSON value, as the worker gave it.' })),
};

/** Why one attempt failed. */
export const AttemptError = Type.Object(fields, { description: 'Why the attempt failed.' });
export type AttemptError = Static<typeof AttemptError>;

/** Why the last failed attempt failed, and which one it was. */
export const LastError = Type.Object({ ...fields, attempt: Type.Integer() }, { description: 'The last failure.' });
export type LastError = Static<typeof LastError>;

const shape = compileDecoder(AttemptError).body;

/**
 * Reads an attempt's error as it is stored: JSON text whose `detail` comes out as the very text it has there. An attempt
 * whose lease expired has none stored and gets `lease_expired`.
 *
 * @returns undefined for an attempt that ended without an error
 */
export function readAttemptError(outcome: string, stored: string | null): AttemptError | undefined {
  if (stored === null) {
    return outcome === 'expired' ? { message: 'the lease expired', type: 'lease_expired' } : undefined;
  }
  const error = JSON.parse(stored) as Record<string, unknown>;
  scanObject({ text: stored, at: 0 }, shape, error);
  return error as AttemptError;
}
