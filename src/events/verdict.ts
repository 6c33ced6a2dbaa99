import type { OutgoingAnswer } from '../hotpath/outgoing.js';

const GONE = 410;
const MAY_ASK_FOR_TIME = new Set([429, 503]);

/** Whether the endpoint has taken the event: a status of success, nothing else. */
export function isDelivered(answer: OutgoingAnswer): boolean {
  return 'status' in answer && answer.status >= 200 && answer.status <= 299;
}

/** Whether the endpoint wants no more events. */
export function isGone(answer: OutgoingAnswer): boolean {
  return 'status' in answer && answer.status === GONE;
}

/** Milliseconds for which the endpoint asks to be left alone. */
export function restOf(answer: OutgoingAnswer): number | undefined {
  return 'status' in answer && MAY_ASK_FOR_TIME.has(answer.status) ? answer.retryAfter : undefined;
}

/** What went wrong, in few words; undefined for what was delivered. */
export function errorOf(answer: OutgoingAnswer): string | undefined {
  if (isDelivered(answer)) return undefined;
  return 'status' in answer ? `status ${answer.status}` : answer.error;
}
