import { Type } from 'typebox';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** What an id or a name of a tenant or a key looks like. */
export const ID_OR_NAME = '^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$';

/** The name of a tenant or a key. It never has a UUID's form, so that it can stand wherever an id can. */
export const givenName = (description: string) =>
  Type.String({
    pattern: '^(?![0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$)[A-Za-z0-9][A-Za-z0-9._-]{0,79}$',
    'x-pattern-hint': '[A-Za-z0-9][A-Za-z0-9._-]{0,79} and not a UUID',
    description,
  });

/** An id or a name. */
export const idOrName = (description: string) =>
  Type.String({ pattern: ID_OR_NAME, 'x-pattern-hint': '[A-Za-z0-9][A-Za-z0-9._-]{0,79}', description });

/** Of the tenant that Stint's own queues belong to: nobody finds that by its id. */
export const OWN_TENANT_ID = '00000000-0000-0000-0000-000000000000';

/** The text as an id, if that is what it is, and as a name if not: `[id, null]` or `[null, name]`. */
export function idAndName(text: string): [id: string | null, name: string | null] {
  return UUID.test(text) && text !== OWN_TENANT_ID ? [text.toLowerCase(), null] : [null, text];
}
