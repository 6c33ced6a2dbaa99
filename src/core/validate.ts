import { Ajv } from 'ajv';
import type { TSchema } from 'typebox';
import { ServiceError } from '../errors.js';
import { addServiceKeywords } from './service-keywords.js';
import { serviceSchema } from './service-schema.js';
import { describeError } from './validation-words.js';

/** Throws ServiceError INVALID_ARGUMENT about the first field that breaks the schema. */
export type Validator = (value: unknown) => void;

/**
 * Compiles a schema to a validator of values in the form of the service (durations in milliseconds, timestamps in
 * microseconds, JSON as text, bytes as Buffer). It changes nothing, except that a faulty item of a lenient array is
 * replaced by an `InvalidItem`. Beside JSON Schema it knows, on strings, `x-min-bytes`, `x-max-bytes` (of UTF-8),
 * `x-no-control` and `x-pattern-hint`; on objects `x-exclusive`: lists of names of which at most one may be given.
 */
export function compileValidator(schema: TSchema): Validator {
  const ajv = new Ajv({
    strict: false,
    strictNumbers: true,
    discriminator: true,
    verbose: true,
    messages: false,
    meta: false,
    validateSchema: false,
    addUsedSchema: false,
  });
  addServiceKeywords(ajv);
  const check = ajv.compile(serviceSchema(schema));
  return (value) => {
    if (check(value)) return;
    const { sentence, fields } = describeError(check.errors![0]!, value, 'body');
    throw new ServiceError('INVALID_ARGUMENT', sentence, { fields });
  };
}
