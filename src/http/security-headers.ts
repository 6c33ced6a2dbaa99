/**
 * On every answer but those of the page at `/docs`, whose policy is wider. They are data, never a page: a browser that is led
 * to one shows nothing of it, runs nothing, puts it into no frame, and tells nobody where it has been.
 */
export const SECURITY_HEADERS = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
} as const;

/** Names and values by turns, as `writeHead` takes them. */
export const SECURITY_HEADER_LIST: readonly string[] = Object.entries(SECURITY_HEADERS).flat();
