import { type Static, Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { EventList, whichEvents } from './list-input.js';
import { type EventPage, readEvents } from './read-events.js';

const Input = Type.Object(whichEvents);

/** The audit log of the caller's tenant. Throws PERMISSION_DENIED for a key that is bound to queues. */
export const listOwnAuditEvents = defineOperation({
  name: 'ListOwnAuditEvents',
  group: 'Account',
  summary: 'Read the audit log of your tenant',
  description:
    'What its keys did and what an administrator did to it, oldest first. Not for a key that is bound to queues, since the log ' +
    'names all of them.',
  scopes: ['manage'],
  http: [{ method: 'GET', path: '/v1/audit' }],
  input: Input,
  output: EventList,
  run: async ({ engine, caller, tenant }: Context<Engine>, input: Static<typeof Input>): Promise<EventPage> => {
    if (caller.queues !== undefined) {
      throw new ServiceError('PERMISSION_DENIED', 'a key that is bound to queues cannot read the audit log');
    }
    return readEvents(engine.database.ordinary, { ...input, tenantId: tenant.id });
  },
});
