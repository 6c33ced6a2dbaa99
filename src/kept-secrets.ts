import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Config } from './config.js';
import type { Connections } from './db/pool.js';
import { ensureDefaultKey, ensureDefaultTenant } from './tenants/ensure-default.js';

export interface Secrets {
  /** None when they stand in a file. */
  readonly adminKeys: readonly string[];
  /** A key of the tenant `default`; only with the embedded Postgres. */
  readonly defaultKey: string | undefined;
}

/**
 * The keys this installation works with. With the embedded Postgres both are made once and kept in the data directory, readable
 * by its owner alone; an admin key from the environment wins over the kept one. With a database of one's own there is no default
 * key: the administrator makes tenants and keys.
 */
export async function keptSecrets(config: Config, connections: Connections): Promise<Secrets> {
  const { tenantId } = await ensureDefaultTenant(connections);
  if (config.databaseUrl !== undefined) return { adminKeys: config.adminKeys, defaultKey: undefined };
  const adminFile = path.join(config.dataDirectory, 'admin-key');
  const keyFile = path.join(config.dataDirectory, 'default-key');
  const isGiven = config.adminKeys.length > 0 || config.adminKeyFile !== undefined;
  const adminKeys = isGiven ? config.adminKeys : [(await kept(adminFile)) ?? randomBytes(32).toString('base64url')];
  if (!isGiven) await keep(adminFile, adminKeys[0]!);
  const defaultKey = await ensureDefaultKey(connections, tenantId, await kept(keyFile));
  await keep(keyFile, defaultKey);
  return { adminKeys, defaultKey };
}

async function kept(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

async function keep(file: string, secret: string): Promise<void> {
  await writeFile(file, `${secret}\n`, { mode: 0o600 });
}
