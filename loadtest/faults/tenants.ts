import { QUEUES } from './queues.js';

const SCOPES = ['enqueue', 'work', 'read', 'manage'];

export interface Keys {
  /** Of the tenant of the load, which has its queues. */
  readonly own: string;
  /** Of another tenant, which has nothing. */
  readonly other: string;
}

/** Makes the two tenants, a key with every scope for each, and the queues of the load. */
export async function prepareTenants(base: string, adminKey: string): Promise<Keys> {
  const send = async (method: string, where: string, { key, body }: { key: string; body: unknown }) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const reply = await fetch(`${base}${where}`, { method, headers, body: JSON.stringify(body) });
    if (!reply.ok) throw new Error(`${method} ${where}: ${reply.status} ${await reply.text()}`);
    return reply.json();
  };
  const tenant = async (name: string): Promise<string> => {
    await send('POST', '/v1/admin/tenants', { key: adminKey, body: { name } });
    const body = { name, scopes: SCOPES };
    const made = await send('POST', `/v1/admin/tenants/${name}/keys`, { key: adminKey, body });
    return (made as { secret: string }).secret;
  };
  const own = await tenant('faults');
  for (const [name, body] of Object.entries(QUEUES)) await send('PUT', `/v1/queues/${name}`, { key: own, body });
  return { own, other: await tenant('intruder') };
}
