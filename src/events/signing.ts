import { randomBytes } from 'node:crypto';
import { Webhook } from 'standardwebhooks';

const SECRET_BYTES = 32;

/** Makes a secret for signing: `whsec_` and 256 random bits. */
export function newSigningSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`;
}

export interface Message {
  /** The same on every attempt. */
  readonly id: string;
  readonly body: string;
}

/** The headers of a POST, signed with each of the secrets, by the rules of Standard Webhooks. */
export function signedHeaders(message: Message, secrets: readonly string[]): Record<string, string> {
  const at = new Date();
  const signatures = secrets.map((secret) => new Webhook(secret).sign(message.id, at, message.body));
  return {
    'content-type': 'application/json',
    'user-agent': 'Stint-Webhooks',
    'webhook-id': message.id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
    'webhook-signature': signatures.join(' '),
  };
}
