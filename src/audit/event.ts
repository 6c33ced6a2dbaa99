import { type Static, Type } from 'typebox';
import { JsonText, Timestamp } from '../core/wire.js';

/** One entry of the audit log. */
export const AuditEvent = Type.Object({
  id: Type.String({ format: 'uuid' }),
  at: Timestamp(),
  tenant: Type.Optional(
    Type.String({ format: 'uuid', description: 'Id of the tenant it concerns; absent for what is of no tenant.' }),
  ),
  action: Type.String({ description: 'The operation, for instance `PauseQueue`.' }),
  target: Type.String({
    description:
      'What it was done to, for instance `queue mail`; empty for a call that was refused before it was read.',
  }),
  refused: Type.Boolean({ description: 'The caller was not allowed to: nothing was done.' }),
  actor: Type.Object({
    kind: Type.Enum(['root', 'key', 'token'], {
      description: 'A root key of the configuration, an API key, or a token of an issuer.',
    }),
    id: Type.String({ description: 'Of the key; of a token, its issuer and subject.' }),
    name: Type.String(),
  }),
  before: Type.Optional(JsonText({ description: 'How it was; absent where nothing was, or nothing is to be told.' })),
  after: Type.Optional(JsonText({ description: 'How it became, or what the act did.' })),
  requestId: Type.String(),
  address: Type.String({ description: 'Where the call came from.' }),
});
export type AuditEvent = Static<typeof AuditEvent>;
