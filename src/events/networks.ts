import { isIP } from 'node:net';
import { addressIn, blockListOf, holds } from '../core/address.js';

/** What an address is to us: anybody's, one that the operator has allowed, or none that a tenant may reach. */
export type Reach = 'public' | 'allowed' | 'forbidden';

/** Not for the public, by the registries of special-purpose addresses: this network, private, shared, loopback, link-local, multicast and so on. */
const SPECIAL_IPV4 = blockListOf([
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]);

/** All there is of public IPv6, and what within it is not: protocol assignments with Teredo, documentation. */
const GLOBAL_IPV6 = blockListOf(['2000::/3']);
const SPECIAL_IPV6 = blockListOf(['2001::/23', '2001:db8::/32', '3fff::/20']);

const NAT64 = blockListOf(['64:ff9b::/96']);
const SIX_TO_FOUR = blockListOf(['2002::/16']);

/**
 * Makes the rule of what addresses endpoints may have. An IPv4 address inside an IPv6 one (mapped, NAT64, 6to4) is judged as itself.
 *
 * @param allowedNetworks addresses and CIDR ranges, checked before (STINT_WEBHOOK_ALLOW_NETWORKS)
 */
export function createReach(allowedNetworks: readonly string[]): (address: string) => Reach {
  const allowed = allowedNetworks.length === 0 ? undefined : blockListOf(allowedNetworks);

  return function reachOf(given: string): Reach {
    const address = given.includes('%') ? undefined : addressIn(given);
    if (address === undefined) return 'forbidden';
    if (allowed !== undefined && holds(allowed, address)) return 'allowed';
    if (isIP(address) === 4) return holds(SPECIAL_IPV4, address) ? 'forbidden' : 'public';
    if (holds(NAT64, address)) return reachOf(ipv4At(address, 6));
    if (holds(SIX_TO_FOUR, address)) return reachOf(ipv4At(address, 1));
    return holds(GLOBAL_IPV6, address) && !holds(SPECIAL_IPV6, address) ? 'public' : 'forbidden';
  };
}

/** The IPv4 address in two of the eight groups of an IPv6 address. */
function ipv4At(address: string, group: number): string {
  const hexadecimal = address.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...bytes: string[]) => {
    const [a, b, c, d] = bytes.map(Number);
    return `${((a! << 8) | b!).toString(16)}:${((c! << 8) | d!).toString(16)}`;
  });
  const [head = '', tail = ''] = hexadecimal.split('::');
  const [left, right] = [head, tail].map((part) => (part === '' ? [] : part.split(':')));
  const zeros = Array<string>(8 - left!.length - right!.length).fill('0');
  const groups = [...left!, ...zeros, ...right!].map((each) => parseInt(each, 16));
  return [groups[group]!, groups[group + 1]!].flatMap((pair) => [pair >> 8, pair & 255]).join('.');
}
