import { Type } from 'typebox';
import { pageInput } from '../core/page.js';
import { Timestamp } from '../core/wire.js';
import { AuditEvent } from './event.js';

/** Which events of a log. */
export const whichEvents = {
  action: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z]{1,64}$',
      'x-pattern-hint': 'the name of an operation',
      description: 'Of this operation only.',
    }),
  ),
  since: Type.Optional(Timestamp({ description: 'Not before this instant.' })),
  until: Type.Optional(Timestamp({ description: 'Before this instant.' })),
  ...pageInput,
};

export const EventList = Type.Object({ events: Type.Array(AuditEvent), nextCursor: Type.Optional(Type.String()) });
