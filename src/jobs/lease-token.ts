/** What a lease token names. */
export interface LeaseToken {
  readonly queueId: number;
  readonly jobId: string;
  readonly epoch: number;
  /** A random 64-bit number, as decimal text. */
  readonly leaseId: string;
}

const VERSION = 1;
const BYTES = 33;
const TEXT = /^[A-Za-z0-9_-]{44}$/;

/** Writes the token that proves a lease: opaque to callers, safe in a URL. The tenant is the queue's. */
export function formatLeaseToken({ queueId, jobId, epoch, leaseId }: LeaseToken): string {
  const bytes = Buffer.allocUnsafe(BYTES);
  bytes.writeUInt8(VERSION, 0);
  bytes.writeUInt32BE(queueId, 1);
  bytes.write(jobId.replaceAll('-', ''), 5, 'hex');
  bytes.writeUInt32BE(epoch, 21);
  bytes.writeBigInt64BE(BigInt(leaseId), 25);
  return bytes.toString('base64url');
}

/** Reads a token; undefined when it is none that this service has made. */
export function parseLeaseToken(text: string): LeaseToken | undefined {
  if (!TEXT.test(text)) return undefined;
  const bytes = Buffer.from(text, 'base64url');
  const queueId = bytes.readUInt32BE(1);
  const epoch = bytes.readUInt32BE(21);
  if (bytes.readUInt8(0) !== VERSION || queueId > MAX_INT || epoch > MAX_INT) return undefined;
  const hex = bytes.toString('hex', 5, 21);
  const jobId = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  return { queueId, jobId, epoch, leaseId: bytes.readBigInt64BE(25).toString() };
}

const MAX_INT = 2_147_483_647;
