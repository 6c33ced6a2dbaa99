import { ERROR_CODES, type ErrorCode } from '../errors.js';
import type { Operation } from '../core/operation.js';

type Json = Record<string, unknown>;

export const ABOUT = `Stint is a multi-tenant queue as a service. A producer enqueues jobs; a worker leases them, heartbeats while it works,
and settles each lease by an ack, a nack or a release.

**Credentials.** Send \`Authorization: Bearer <key>\`. The tenant comes from the key, never from a path or a body.

**Durations** are strings such as \`"500ms"\`, \`"30s"\`, \`"5m"\`, \`"1h30m"\`, \`"7d"\`; answers give seconds. **Timestamps** are RFC 3339;
answers give UTC with six digits. **Payloads** are any JSON value and come back to the byte.

**Bodies** are JSON in UTF-8, at most 8 MiB, not compressed. Fields that are not known are refused by name. An empty body is \`{}\`.

**Errors** are \`application/problem+json\` (RFC 9457) with a \`code\` to branch on, the fields at fault in \`errors\`, and a \`requestId\` that
finds the call in the service's log. Send \`X-Request-Id\` to choose that id yourself. 429 and 503 carry \`Retry-After\` in seconds.

**Connections.** Idle connections are kept for 75 seconds unless configured otherwise; keep a load balancer's idle time below that.`;

export const GROUPS: readonly { readonly name: Operation['group']; readonly description: string }[] = [
  { name: 'Jobs', description: 'Enqueue, lease, heartbeat, settle, look up.' },
  { name: 'Queues', description: 'Settings, counts, pause and purge, dead letters.' },
  { name: 'Schedules', description: 'Jobs enqueued by the clock.' },
  { name: 'Events', description: 'Webhooks: what has happened, posted to endpoints of yours.' },
  { name: 'Account', description: 'A tenant’s own limits, keys and audit log.' },
  { name: 'Admin', description: 'Tenants, their keys and limits, and administrators’ keys.' },
];

export function problemSchema(): Json {
  return {
    type: 'object',
    required: ['type', 'title', 'status', 'detail', 'code', 'requestId'],
    properties: {
      type: { type: 'string', format: 'uri', examples: ['urn:stint:error:INVALID_ARGUMENT'] },
      title: { type: 'string' },
      status: { type: 'integer' },
      detail: { type: 'string', description: 'What is wrong, for people.' },
      code: { type: 'string', enum: Object.keys(ERROR_CODES), description: 'What is wrong, for programs.' },
      requestId: { type: 'string' },
      errors: {
        type: 'array',
        description: 'The fields at fault.',
        items: {
          type: 'object',
          required: ['field', 'message'],
          properties: { field: { type: 'string', examples: ['jobs[1].queue'] }, message: { type: 'string' } },
        },
      },
    },
  };
}

/** One response for every status of the error table, with the codes that share it. */
export function problemResponses(): Json {
  const codes = Object.keys(ERROR_CODES) as ErrorCode[];
  const statuses = [...new Set(codes.map((code) => ERROR_CODES[code].http))].sort();
  return Object.fromEntries(
    statuses.map((status) => {
      const own = codes.filter((code) => ERROR_CODES[code].http === status);
      return [`Problem${status}`, problemResponse(status, own)];
    }),
  );
}

function problemResponse(status: number, codes: readonly ErrorCode[]): Json {
  const headers = {
    ...((status === 429 || status === 503) && {
      'Retry-After': { description: 'Seconds to wait, with jitter.', schema: { type: 'integer', minimum: 1 } },
    }),
    ...(status === 401 && { 'WWW-Authenticate': { schema: { type: 'string', examples: ['Bearer'] } } }),
  };
  return {
    description: codes.map((code) => `\`${code}\``).join(', '),
    ...(Object.keys(headers).length > 0 && { headers }),
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
  };
}

export function problemReference(status: number): Json {
  return { $ref: `#/components/responses/Problem${status}` };
}
