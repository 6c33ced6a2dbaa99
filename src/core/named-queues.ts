import type { TSchema } from 'typebox';
import { ServiceError } from '../errors.js';
import { formOf } from './schema.js';

/** The key that marks a string as the name of a queue of the caller's. */
export const QUEUE_NAME = 'x-queue-name';

/** Finds the names of queues in a valid input and passes each to `see`, with the path of its field. */
export type NamedQueues = (input: unknown, see: (queue: string, field: string) => void) => void;

type Visit = (value: unknown, path: string, see: (queue: string, field: string) => void) => void;

/** Compiles what finds the queues that an input of this schema names. */
export function compileNamedQueues(schema: TSchema): NamedQueues {
  const visit = visitOf(schema);
  return (input, see) => visit?.(input, '', see);
}

/** Throws PERMISSION_DENIED, naming the field, for the first queue that the caller may not use. */
export function refuseOthers(mayUse: (queue: string) => boolean): (queue: string, field: string) => void {
  return (queue, field) => {
    if (mayUse(queue)) return;
    const message = 'names a queue that this key may not use';
    throw new ServiceError('PERMISSION_DENIED', `${field} ${message}`, { fields: [{ field, message }] });
  };
}

function visitOf(schema: TSchema): Visit | undefined {
  if ((schema as unknown as Readonly<Record<string, unknown>>)[QUEUE_NAME] === true) {
    return (value, path, see) => see(value as string, path);
  }
  const form = formOf(schema);
  if (form.kind === 'array') {
    const items = visitOf(form.items);
    return (
      items &&
      ((value, path, see) => (value as unknown[]).forEach((item, index) => items(item, `${path}[${index}]`, see)))
    );
  }
  if (form.kind !== 'object') return undefined;
  const members = form.properties.flatMap(([name, member]) => {
    const visit = visitOf(member);
    return visit === undefined ? [] : [[name, visit] as const];
  });
  if (members.length === 0) return undefined;
  return (value, path, see) => {
    const object = value as Readonly<Record<string, unknown>>;
    for (const [name, visit] of members)
      if (object[name] !== undefined) visit(object[name], path === '' ? name : `${path}.${name}`, see);
  };
}
