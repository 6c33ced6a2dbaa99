const PAYLOAD_BYTES = 256;

/** A JSON payload of 256 bytes; with a number its field `n` tells jobs apart. */
export function payload(n?: number): string {
  const head = n === undefined ? '{"pad":"' : `{"n":${n},"pad":"`;
  return `${head}${'x'.repeat(PAYLOAD_BYTES - head.length - 2)}"}`;
}

/** The body of one enqueue. */
export function jobBody(n?: number): string {
  return `{"kind":"bench","payload":${payload(n)}}`;
}

/** The body of a batch: as many jobs, over the queues in turn, from the one at `first` on. */
export function batchBody(queues: readonly string[], jobs: number, first = 0): Buffer {
  const items = Array.from({ length: jobs }, (_, index) => {
    const queue = queues[(first + index) % queues.length]!;
    return `{"queue":"${queue}","kind":"bench","payload":${payload()}}`;
  });
  return Buffer.from(`{"jobs":[${items.join(',')}]}`);
}

/** The list of items that acks these leases. */
export function ackItems(tokens: readonly string[]): string {
  return tokens.length === 0 ? '[]' : `[{"leaseToken":"${tokens.join('"},{"leaseToken":"')}"}]`;
}

/** The body of a lease that first acks. */
export function leaseBody(options: {
  readonly maxJobs: number;
  readonly wait: string;
  readonly queues?: readonly string[];
  readonly acks?: readonly string[];
}): string {
  const { maxJobs, wait, queues, acks = [] } = options;
  const names = queues === undefined ? '' : `"queues":[{"name":"${queues.join('"},{"name":"')}"}],`;
  const settle = acks.length === 0 ? '' : `,"settle":{"acks":${ackItems(acks)}}`;
  return `{${names}"maxJobs":${maxJobs},"wait":"${wait}","visibilityTimeout":"10m"${settle}}`;
}
