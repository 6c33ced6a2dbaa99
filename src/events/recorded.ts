import { Type } from 'typebox';
import { compileEncoder } from '../core/encode.js';
import { setUp, shownWebhook, type WebhookRow } from './webhook.js';

/** What the audit log calls a webhook. */
export function recordedName(name: string): string {
  return `webhook ${name}`;
}

const encodeSetUp = compileEncoder(Type.Object(setUp));

/** How a webhook is set up, as the audit log keeps it: without secrets, which may also stand behind the host of its URL. */
export function recordedSetUp(row: WebhookRow): string {
  return encodeSetUp({ ...shownWebhook(row), url: shortUrl(row.url) });
}

function shortUrl(text: string): string {
  const { origin, pathname, search } = new URL(text);
  return pathname === '/' && search === '' ? origin : `${origin}/…`;
}
