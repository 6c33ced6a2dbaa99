import { BlockList, isIP, SocketAddress } from 'node:net';

/** What is known of a caller whose connection was gone before it was asked for its address. */
const UNKNOWN = 'unknown';

/**
 * Makes the function that says where a call comes from, given the address of its connection's peer and its `X-Forwarded-For`
 * (several of them joined by commas).
 *
 * Without trusted proxies that is the peer. Else the header is read from its end for as long as the one who wrote the entry is
 * trusted: the first address that is no trusted proxy's is the caller's. What stands before it, and whatever is no address, is
 * never believed: anybody can send it.
 *
 * @param trustedProxies Addresses and CIDR ranges, checked before (STINT_TRUSTED_PROXIES).
 * @returns An address without port, zone or brackets, IPv4 as IPv4 however it came; `unknown` without a peer.
 */
export function createAddressOf(trustedProxies: readonly string[]) {
  const trusted = trustedProxies.length === 0 ? undefined : blockListOf(trustedProxies);

  return function addressOf(peer: string | undefined, forwardedFor: string | undefined): string {
    const connected = addressIn(peer ?? '') ?? UNKNOWN;
    if (trusted === undefined || forwardedFor === undefined || !holds(trusted, connected)) return connected;
    let nearest = connected;
    for (const entry of forwardedFor.split(',').reverse()) {
      const address = addressIn(withoutPort(entry.trim()));
      if (address === undefined) return nearest;
      nearest = address;
      if (!holds(trusted, address)) return address;
    }
    return nearest;
  };
}

/** The list of these addresses and CIDR ranges. Throws Error for what is neither. */
export function blockListOf(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [given = '', prefix] = range.split('/');
    const address = addressIn(given);
    if (address === undefined) throw new Error(`${range} is no address and no range of addresses`);
    const family = familyOf(address);
    if (prefix === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(prefix), family);
  }
  return list;
}

/** Whether the list holds the address, which stands in its one form. */
export function holds(list: BlockList, address: string): boolean {
  return isIP(address) !== 0 && list.check(address, familyOf(address));
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 4 ? 'ipv4' : 'ipv6';
}

/** Some proxies write `192.0.2.1:4711` and `[2001:db8::1]:4711`. */
function withoutPort(entry: string): string {
  const [, bracketed, dotted] = /^(?:\[([^\]]*)\]|([\d.]+))(?::\d{1,5})?$/.exec(entry) ?? [];
  return bracketed ?? dotted ?? entry;
}

/** The address in its one form; undefined for what is none. */
export function addressIn(text: string): string | undefined {
  const family = isIP(text);
  if (family === 4) return text;
  if (family === 0) return undefined;
  const [withoutZone = ''] = text.split('%');
  const { address } = new SocketAddress({ address: withoutZone, family: 'ipv6' });
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice('::ffff:'.length) : address;
}
