import { type Static, Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type AdminContext, type Context, defineAdminOperation, defineOperation } from '../core/operation.js';
import type { Connection } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import {
  type ApiKeyRow,
  CreatedAdminKey,
  CreatedKey,
  shownAdminKey,
  shownApiKey,
  toAdminKey,
  toApiKey,
} from './api-key.js';
import { overlapField, overlapOf, whichKey, whichTenant } from './key-input.js';
import { refuseBeyond } from './key-rights.js';
import { lockKey, rotateKey } from './key-rows.js';
import { findTenant } from './tenant.js';

const OfTenant = Type.Object({ ...whichTenant, ...whichKey, ...overlapField });
const Own = Type.Object({ ...whichKey, ...overlapField });

const description =
  'The key stays what it is; the secret of before works for `overlap` more, so that its users can change over. Rotating ' +
  'again ends the secret of before at once.';

/** Gives a tenant's key a new secret. Throws NOT_FOUND, and CONFLICT for one that is revoked. */
export const rotateApiKey = defineAdminOperation({
  name: 'RotateApiKey',
  group: 'Admin',
  summary: 'Give an API key a new secret',
  description,
  scopes: ['admin'],
  http: [{ method: 'POST', path: '/v1/admin/tenants/:tenant/keys/:key/rotate' }],
  input: OfTenant,
  output: CreatedKey,
  example: { overlap: '1h' },
  run: async (context: AdminContext<Engine>, input: Static<typeof OfTenant>): Promise<CreatedKey> => {
    const { id } = await findTenant(context.engine.database.ordinary, input.tenant);
    const { row, secret } = await rotate(context, id, { ...input, action: 'RotateApiKey', check: () => undefined });
    return { ...toApiKey(row), secret };
  },
});

/**
 * Gives a key of the caller's tenant a new secret. Throws NOT_FOUND, CONFLICT for one that is revoked, and PERMISSION_DENIED for one
 * that can do more than the caller.
 */
export const rotateOwnKey = defineOperation({
  name: 'RotateOwnKey',
  group: 'Account',
  summary: 'Give an API key of your tenant a new secret',
  description,
  scopes: ['manage'],
  http: [{ method: 'POST', path: '/v1/keys/:key/rotate' }],
  input: Own,
  output: CreatedKey,
  example: { overlap: '1h' },
  run: async (context: Context<Engine>, input: Static<typeof Own>): Promise<CreatedKey> => {
    const check = (key: ApiKeyRow): void => refuseBeyond(context.caller, toApiKey(key));
    const { row, secret } = await rotate(context, context.tenant.id, { ...input, action: 'RotateOwnKey', check });
    return { ...toApiKey(row), secret };
  },
});

/** Gives an administrator's key a new secret. Throws NOT_FOUND, and CONFLICT for one that is revoked. */
export const rotateAdminKey = defineAdminOperation({
  name: 'RotateAdminKey',
  group: 'Admin',
  summary: 'Give an admin key a new secret',
  description,
  scopes: ['admin'],
  http: [{ method: 'POST', path: '/v1/admin/keys/:key/rotate' }],
  input: Own,
  output: CreatedAdminKey,
  example: { overlap: '1h' },
  run: async (context: AdminContext<Engine>, input: Static<typeof Own>): Promise<CreatedAdminKey> => {
    const { row, secret } = await rotate(context, null, { ...input, action: 'RotateAdminKey', check: () => undefined });
    return { ...toAdminKey(row), secret };
  },
});

interface Rotation {
  readonly key: string;
  readonly overlap?: number | undefined;
  readonly action: string;
  /** May throw. */
  readonly check: (key: ApiKeyRow) => void;
}

async function rotate(context: AdminContext<Engine>, tenantId: string | null, rotation: Rotation) {
  const rotated = await context.engine.database.ordinary.transaction(async (connection: Connection) => {
    const before = await lockKey(connection, tenantId, rotation.key);
    rotation.check(before);
    const after = await rotateKey(connection, before, overlapOf(rotation));
    const shown = (row: ApiKeyRow): string =>
      tenantId === null ? shownAdminKey(toAdminKey(row)) : shownApiKey(toApiKey(row));
    await recordAct(connection, context, {
      action: rotation.action,
      target: `${tenantId === null ? 'admin key' : 'key'} ${before.name}`,
      tenantId,
      before: shown(before),
      after: shown(after.row),
    });
    return after;
  });
  context.engine.credentials.changed();
  return rotated;
}
