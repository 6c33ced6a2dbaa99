import { formatTimestamp } from '../core/timestamp.js';

export interface EventBody {
  readonly id: string;
  readonly type: string;
  /** Microseconds. */
  readonly at: number;
  /** JSON text of an object. */
  readonly data: string;
}

/** What is posted. */
export function eventBody({ id, type, at, data }: EventBody): string {
  const [quotedId, quotedType, timestamp] = [id, type, formatTimestamp(at)].map((text) => JSON.stringify(text));
  return `{"id":${quotedId},"type":${quotedType},"timestamp":${timestamp},"data":${data}}`;
}
