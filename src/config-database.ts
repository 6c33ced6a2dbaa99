import { unreadable } from './config-files.js';

const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];
const SSL_FILES = ['sslrootcert', 'sslcert', 'sslkey'];
const SSL_PARAMETERS = ['ssl', 'sslmode', 'sslnegotiation', ...SSL_FILES];

/**
 * What is wrong with how a database's URL asks for TLS, in words that show no other part of it: the driver passes over what it does not
 * know, and would connect without.
 */
export function databaseUrlFaults(name: string, url: string | undefined): string[] {
  if (url === undefined || !URL.canParse(url)) return [];
  return [...new URL(url).searchParams].flatMap(([parameter, value]) => {
    if (parameter === 'sslmode' && !SSL_MODES.includes(value)) {
      return [`${name} has sslmode ${JSON.stringify(value)}: give one of ${SSL_MODES.join(', ')}`];
    }
    if (SSL_FILES.includes(parameter)) return unreadable(`${name} has ${parameter}`, value);
    return /ssl|tls/i.test(parameter) && !SSL_PARAMETERS.includes(parameter)
      ? [`${name} has a parameter ${JSON.stringify(parameter)}: give sslmode and ${SSL_FILES.join(', ')}`]
      : [];
  });
}
