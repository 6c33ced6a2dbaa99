const TOKEN = '"leaseToken":"';
/** A call that is made again after a lost answer finds its leases settled. */
const SETTLED = ['"outcome":"OK"', '"outcome":"ALREADY_SETTLED"'];

/** The lease tokens in an answer, cut out without reading the rest of it. */
export function tokensIn(text: string): string[] {
  const tokens: string[] = [];
  for (let at = text.indexOf(TOKEN); at !== -1; at = text.indexOf(TOKEN, at)) {
    at += TOKEN.length;
    tokens.push(text.slice(at, text.indexOf('"', at)));
  }
  return tokens;
}

/** How many outcomes in an answer say that the lease is settled as asked. */
export function settledIn(text: string): number {
  let found = 0;
  for (const outcome of SETTLED) {
    for (let at = text.indexOf(outcome); at !== -1; at = text.indexOf(outcome, at + outcome.length)) found += 1;
  }
  return found;
}
