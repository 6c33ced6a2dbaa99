import { Resolver } from 'node:dns/promises';
import type { IncomingMessage } from 'node:http';
import http from 'node:http';
import https from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { ServiceError } from '../errors.js';
import type { Outgoing, OutgoingAnswer, OutgoingError, Poster } from '../hotpath/outgoing.js';
import { createReach, type Reach } from './networks.js';
import { readRetryAfter } from './retry-after.js';

export interface PosterParts {
  /** Addresses and CIDR ranges that are reached although they are not public. */
  readonly allowedNetworks: readonly string[];
  /** Addresses of a name; by DNS unless given. May throw. */
  readonly resolve?: (name: string) => Promise<readonly string[]>;
  /** Certificates of authorities, in PEM; those of the runtime unless given. */
  readonly authorities?: string;
  /** Milliseconds for everything from the name's look-up to the answer's end; 10 s unless given. */
  readonly deadline?: number;
}

const DEADLINE_MS = 10_000;
const ANSWER_BYTES = 4 * 1024;
const MOST_TRIALS = 32;

/**
 * Makes what posts to endpoints. A name is resolved here, once, and the connection goes to the addresses that were judged then and to no
 * other. No redirect is followed, nothing kept of an answer but its status; a connection serves one POST.
 */
export function createPoster({
  allowedNetworks,
  resolve = createResolve(),
  authorities,
  deadline = DEADLINE_MS,
}: PosterParts): Poster {
  const reachOf = createReach(allowedNetworks);
  let trials = 0;

  async function addressesOf({ hostname, protocol }: URL): Promise<readonly string[]> {
    const host = hostname.replace(/^\[(.*)\]$/, '$1');
    const addresses = isIP(host) === 0 ? await resolve(host.replace(/\.$/, '')).catch(() => []) : [host];
    return addresses.filter((address) => isGood(reachOf(address), protocol));
  }

  async function post(outgoing: Outgoing): Promise<OutgoingAnswer> {
    const url = new URL(outgoing.url);
    const ending = new Ending(outgoing.departure, deadline);
    try {
      const addresses = await Promise.race([addressesOf(url), ending.reached]);
      if (typeof addresses === 'string') return { error: addresses };
      if (addresses.length === 0) return { error: 'not reachable' };
      return await exchange({ outgoing, url, addresses, authorities, ending });
    } finally {
      ending.clear();
    }
  }

  return {
    faultIn: (text) => faultIn(text, reachOf, allowedNetworks.length > 0),
    post,
    tryOut: async (outgoing) => {
      if (trials >= MOST_TRIALS) {
        throw new ServiceError('UNAVAILABLE', 'too many test deliveries are under way', { retryAfter: 5 });
      }
      trials += 1;
      try {
        return await post(outgoing);
      } finally {
        trials -= 1;
      }
    },
  };
}

/** Without TLS only where the operator has allowed it: what is sent may hold payloads. */
function isGood(reach: Reach, protocol: string): boolean {
  return reach === 'allowed' || (reach === 'public' && protocol === 'https:');
}

function faultIn(text: string, reachOf: (address: string) => Reach, someAllowed: boolean): string | undefined {
  if (!URL.canParse(text)) return 'must be a URL';
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must begin with https://';
  if (url.username !== '' || url.password !== '') return 'must not hold a user name or a password';
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  const isName = isIP(host) === 0;
  if (isName && isLocal(host)) return isGood(reachOf('127.0.0.1'), url.protocol) ? undefined : NOT_ALLOWED;
  const reach = isName ? 'public' : reachOf(host);
  if (reach === 'forbidden') return NOT_ALLOWED;
  // What a name leads to is not known before it is looked up.
  if (url.protocol === 'http:' && reach === 'public' && !(isName && someAllowed)) return 'must begin with https://';
  return undefined;
}

const NOT_ALLOWED = 'must not name an address that is not public';

/** When a POST is over whatever has come of it: at its deadline, or when its sender goes. */
class Ending {
  readonly reached: Promise<OutgoingError>;
  private end: (why: OutgoingError) => void = () => undefined;
  private readonly timer: NodeJS.Timeout;
  private readonly onGone = (): void => this.end('ended');

  constructor(
    private readonly departure: Outgoing['departure'],
    deadline: number,
  ) {
    this.reached = new Promise((resolve) => (this.end = resolve));
    this.timer = setTimeout(() => this.end('timeout'), deadline);
    departure?.listen(this.onGone);
  }

  clear(): void {
    clearTimeout(this.timer);
    this.departure?.unlisten(this.onGone);
  }
}

interface Exchange {
  readonly outgoing: Outgoing;
  readonly url: URL;
  readonly addresses: readonly string[];
  readonly authorities: string | undefined;
  readonly ending: Ending;
}

function exchange({ outgoing, url, addresses, authorities, ending }: Exchange): Promise<OutgoingAnswer> {
  return new Promise((resolve) => {
    const isSecure = url.protocol === 'https:';
    const body = Buffer.from(outgoing.body);
    const request = (isSecure ? https : http).request(url, {
      method: 'POST',
      headers: { ...outgoing.headers, 'content-length': body.length, connection: 'close' },
      agent: false,
      lookup: pinnedTo(addresses),
      ...(authorities === undefined ? {} : { ca: authorities }),
    });
    let stage: OutgoingError = 'not reachable';
    const settle = (answer: OutgoingAnswer): void => {
      resolve(answer);
      request.destroy();
    };
    request.on('socket', (socket) => {
      socket.once('connect', () => (stage = isSecure ? 'tls' : 'no answer'));
      socket.once('secureConnect', () => (stage = 'no answer'));
    });
    request.on('error', () => settle({ error: stage }));
    request.on('close', () => settle({ error: stage }));
    request.on('response', (response) => hear(response, settle));
    void ending.reached.then((error) => settle({ error }));
    request.end(body);
  });
}

/** A success counts when its answer is whole, or longer than anybody needs; anything else as soon as it has a status. */
function hear(response: IncomingMessage, settle: (answer: OutgoingAnswer) => void): void {
  const status = response.statusCode ?? 0;
  const answer = { status, retryAfter: readRetryAfter(response.headers['retry-after'], Date.now()) };
  if (status < 200 || status > 299) return settle(answer);
  let bytes = 0;
  response.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES) settle(answer);
  });
  response.on('end', () => settle(answer));
  response.on('error', () => settle({ error: 'no answer' }));
}

/** Answers every look-up with these addresses, whatever the name leads to by now. */
function pinnedTo(addresses: readonly string[]): LookupFunction {
  const all = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_name, options, callback) => {
    if (options.all === true) callback(null, all);
    else callback(null, all[0]!.address, all[0]!.family);
  };
}

const LOOK_UP_MS = 2_000;
const LOOK_UP_TRIES = 2;

/**
 * By DNS and not by the system's own look-up, which takes one of the process's few threads for as long as a name's server is silent.
 */
function createResolve(): (name: string) => Promise<readonly string[]> {
  const resolver = new Resolver({ timeout: LOOK_UP_MS, tries: LOOK_UP_TRIES });
  return async (name) => {
    if (isLocal(name)) return ['127.0.0.1', '::1'];
    const found = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    return found.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
  };
}

function isLocal(name: string): boolean {
  return name === 'localhost' || name.endsWith('.localhost');
}
