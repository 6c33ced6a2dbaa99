import { readFileSync } from 'node:fs';
import path from 'node:path';
import { nearestName } from './config-names.js';

const ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA'] as const;
const MOST_ISSUERS = 100;
const LONGEST_SHOWN = 100;

/** An issuer of tokens, as the file has it, defaults filled in. */
export interface Issuer {
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly jwks: { readonly url: string } | { readonly file: string };
  readonly algorithms: readonly (typeof ALGORITHMS)[number][];
  readonly tenantClaim: string;
  readonly scopeClaim: string;
  /** Empty: scopes stand as they are. */
  readonly scopePrefix: string;
  readonly leewaySeconds: number;
}

interface Given {
  readonly issuer: string;
  readonly audience: string | readonly string[];
  readonly jwks: string;
  readonly algorithms?: Issuer['algorithms'];
  readonly tenantClaim: string;
  readonly scopeClaim?: string;
  readonly scopePrefix?: string;
  readonly leewaySeconds?: number;
}

interface Member {
  readonly isRequired?: boolean;
  /** What is accepted, in words. */
  readonly accepts: string;
  readonly isAccepted: (value: unknown) => boolean;
  /** The same of each of a list, where the value may be one. */
  readonly each?: Pick<Member, 'accepts' | 'isAccepted'>;
}

const AUDIENCE = { accepts: 'an audience, 1 to 512 characters', isAccepted: isText(512) };

const MEMBERS: Readonly<Record<keyof Given, Member>> = {
  issuer: {
    isRequired: true,
    accepts: 'the iss claim of its tokens to the letter, 1 to 512 characters',
    isAccepted: isText(512),
  },
  audience: {
    isRequired: true,
    accepts: 'an audience, 1 to 512 characters, or a list of 1 to 20',
    isAccepted: AUDIENCE.isAccepted,
    each: AUDIENCE,
  },
  jwks: {
    isRequired: true,
    accepts:
      'the https URL of a key set (http only for localhost), without user and password, or the absolute path of a file',
    isAccepted: (value) => typeof value === 'string' && (path.isAbsolute(value) || isKeySetUrl(value)),
  },
  algorithms: {
    accepts: `a list of ${ALGORITHMS.join(', ')}`,
    isAccepted: () => false,
    each: {
      accepts: `one of ${ALGORITHMS.join(', ')}`,
      isAccepted: (value) => (ALGORITHMS as readonly unknown[]).includes(value),
    },
  },
  tenantClaim: { isRequired: true, accepts: 'the name of a claim, 1 to 256 characters', isAccepted: isText(256) },
  scopeClaim: { accepts: 'the name of a claim, 1 to 256 characters', isAccepted: isText(256) },
  scopePrefix: {
    accepts: '1 to 100 characters without spaces',
    isAccepted: (value) => typeof value === 'string' && /^\S{1,100}$/.test(value),
  },
  leewaySeconds: {
    accepts: 'a whole number from 0 to 60',
    isAccepted: (value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 60,
  },
};

/**
 * The issuers in the JSON file that STINT_JWT_ISSUERS_FILE names. Throws one Error that names every fault in plain words, a
 * line each: the file, the path within, what was given and what is accepted.
 */
export function readIssuers(file: string): Issuer[] {
  const given = readJson(file);
  const faults = faultsIn(given);
  if (faults.length > 0) throw new Error(faults.map((fault) => `STINT_JWT_ISSUERS_FILE ${file}: ${fault}`).join('\n'));
  return (given as readonly Given[]).map(issuerOf);
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8').replace(/^\uFEFF/, ''));
  } catch (error) {
    const what = error instanceof SyntaxError ? 'is not JSON' : 'cannot be read';
    throw new Error(`STINT_JWT_ISSUERS_FILE ${file} ${what}: ${(error as Error).message}`, { cause: error });
  }
}

function faultsIn(given: unknown): string[] {
  if (!Array.isArray(given)) return [`it holds ${shown(given)}: give a list of issuers`];
  if (given.length > MOST_ISSUERS) return [`it lists ${given.length} issuers: give at most ${MOST_ISSUERS}`];
  const firstAt = new Map<unknown, number>();
  return given.flatMap((each: unknown, index) => {
    const at = `[${index}]`;
    if (!isObject(each)) return [`${at} is ${shown(each)}: give an object with ${Object.keys(MEMBERS).join(', ')}`];
    const faults = memberFaults(each, at);
    const issuer = each['issuer'];
    const first = firstAt.get(issuer);
    if (issuer === undefined) return faults;
    if (first === undefined) firstAt.set(issuer, index);
    else faults.push(`${at}.issuer is ${shown(issuer)}, as [${first}].issuer is: an issuer may stand only once`);
    return faults;
  });
}

function memberFaults(given: Readonly<Record<string, unknown>>, at: string): string[] {
  const names = Object.keys(MEMBERS);
  const unknown = Object.keys(given)
    .filter((name) => !names.includes(name))
    .map((name) => {
      const nearest = nearestName(name, names);
      return `${at}.${name} is not a member of an issuer${nearest === undefined ? '' : `: did you mean ${nearest}?`}`;
    });
  return [
    ...unknown,
    ...Object.entries(MEMBERS).flatMap(([name, member]) => valueFaults(given[name], member, `${at}.${name}`)),
  ];
}

function valueFaults(value: unknown, { isRequired, accepts, isAccepted, each }: Member, at: string): string[] {
  if (value === undefined) return isRequired === true ? [`${at} is missing: give ${accepts}`] : [];
  if (each !== undefined && Array.isArray(value) && value.length > 0 && value.length <= 20) {
    return value.flatMap((item: unknown, index) => valueFaults(item, each, `${at}[${index}]`));
  }
  return isAccepted(value) ? [] : [`${at} is ${shown(value)}: give ${accepts}`];
}

function issuerOf(given: Given): Issuer {
  const { issuer, audience, jwks, tenantClaim } = given;
  return Object.freeze({
    issuer,
    audiences: typeof audience === 'string' ? [audience] : audience,
    jwks: path.isAbsolute(jwks) ? { file: jwks } : { url: jwks },
    algorithms: given.algorithms ?? ALGORITHMS,
    tenantClaim,
    scopeClaim: given.scopeClaim ?? 'scope',
    scopePrefix: given.scopePrefix ?? '',
    leewaySeconds: given.leewaySeconds ?? 30,
  });
}

function isText(longest: number): (value: unknown) => boolean {
  return (value) => typeof value === 'string' && value.length > 0 && value.length <= longest;
}

function isKeySetUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, username, password } = new URL(text);
  const isLocal = ['localhost', '127.0.0.1', '[::1]'].includes(hostname);
  return username === '' && password === '' && (protocol === 'https:' || (protocol === 'http:' && isLocal));
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A URL's user and password are not shown. */
function shown(value: unknown): string {
  const text = JSON.stringify(value).replace(/(:\/\/)[^/@"]*@/g, '$1…@');
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
}
