import type { Secrets } from './kept-secrets.js';

/** What a person who has just started the service wants to see: where it is, a key, and three lines to try. */
export function greet({
  host,
  port,
  grpcPort,
  secrets,
}: {
  readonly host: string;
  readonly port: number;
  readonly grpcPort: number;
  readonly secrets: Secrets;
}): string {
  const base = `http://${reachable(host)}:${port}`;
  const ready = `Stint is ready at ${base} (reference: ${base}/docs), gRPC at ${reachable(host)}:${grpcPort}.`;
  if (secrets.defaultKey === undefined) return ready;
  const auth = `-H 'Authorization: Bearer ${secrets.defaultKey}'`;
  const json = `-H 'Content-Type: application/json'`;
  return `${ready}
Key of the tenant "default": ${secrets.defaultKey}

Enqueue a job, lease it, ack it:

  curl -sS -w '\\n' ${base}/v1/queues/mail/jobs ${auth} ${json} -d '{"kind":"welcome","payload":{"to":"ada@example.com"}}'

  LEASE=$(curl -sS ${base}/v1/queues/mail/lease ${auth} ${json} -d '{"wait":"10s"}'); echo "$LEASE"

  curl -sS -w '\\n' ${base}/v1/leases/ack ${auth} ${json} -d '{"items":[{"leaseToken":"'"$(echo "$LEASE" | sed 's/.*"leaseToken":"\\([^"]*\\)".*/\\1/')"'"}]}'
`;
}

function reachable(host: string): string {
  if (host === '::' || host === '0.0.0.0') return 'localhost';
  return host.includes(':') ? `[${host}]` : host;
}
