import { isIP } from 'node:net';

/** Formats of a variable that JSON Schema does not know: each says whether one item of a comma-separated list is accepted. */
export const LIST_FORMATS = {
  origins: isOrigin,
  networks: isNetwork,
  headers: isHeaderPair,
  attributes: isAttributePair,
} as const;

export type ListFormat = keyof typeof LIST_FORMATS;

/** The items of a comma-separated list, spaces around them dropped. */
export function listOf(given: string | undefined): readonly string[] {
  return given === undefined ? [] : given.split(',').map((item) => item.trim());
}

/** An origin exactly as browsers send it: scheme, host and what port is not the scheme's own; no path, no wildcard. */
function isOrigin(item: string): boolean {
  if (!/^https?:\/\/[a-z0-9[][a-z0-9.:\-[\]]*$/.test(item)) return false;
  return URL.canParse(item) && new URL(item).origin === item;
}

/** An IP address, or a range in CIDR notation. An IPv4 address is written as one, not inside an IPv6 address. */
function isNetwork(item: string): boolean {
  const [address = '', prefix, ...more] = item.split('/');
  const family = isIP(address);
  if (family === 0 || more.length > 0 || /%|^::ffff:/i.test(address)) return false;
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (family === 4 ? 32 : 128));
}

/** `name=value`, the value percent-encoded where it has to be. Nothing at all is let pass: lists may end in a comma. */
function isHeaderPair(item: string): boolean {
  if (item === '') return true;
  const [, value] = /^[\w!#$%&'*+.^`|~-]+ *=(.+)$/.exec(item) ?? [];
  return value !== undefined && /^[\t -~]+$/.test(decoded(value) ?? '');
}

/** `key=value`, both percent-encoded where they have to be, by the specification of OTEL_RESOURCE_ATTRIBUTES. */
function isAttributePair(item: string): boolean {
  if (item === '') return true;
  const [, key = '', value = ''] = /^([^=]+)=([^=]*)$/.exec(item) ?? [];
  const [plainKey = '', plainValue] = [decoded(key), decoded(value)];
  return plainKey !== '' && plainKey.length <= 255 && plainValue !== undefined && plainValue.length <= 255;
}

/** Undefined when it is not percent-encoding. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text.trim());
  } catch {
    return undefined;
  }
}
