/** Whole seconds, spread over half as much again and never earlier than asked, so that refused callers do not return as one. */
export function retryAfter(seconds = 1): number {
  const base = Math.max(1, Math.ceil(seconds));
  return base + Math.floor(Math.random() * (base * 0.5 + 1));
}
