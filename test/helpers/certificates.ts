import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** Why certificates cannot be made on this machine; false where they can. */
export const WITHOUT_OPENSSL = spawnSync('openssl', ['version']).status === 0 ? false : 'openssl not installed';

/** A directory of certificates in PEM: of each name `<name>.crt` and `<name>.key`. */
export interface Certificates {
  file(name: string): string;
  /** Makes one that may sign others. */
  authority(name: string): void;
  /** Makes one for 127.0.0.1, signed by an authority that was made here. */
  sign(name: string, authority: string): void;
  remove(): Promise<void>;
}

const NEW_KEY = ['-newkey', 'rsa:2048', '-nodes'];

export async function createCertificates(): Promise<Certificates> {
  const directory = await mkdtemp(path.join(tmpdir(), 'stint-test-tls-'));
  const openssl = (...args: string[]): unknown => execFileSync('openssl', args, { cwd: directory, stdio: 'pipe' });
  const own = (name: string): string[] => ['-keyout', `${name}.key`];
  return {
    file: (name) => path.join(directory, name),
    authority: (name) =>
      openssl('req', '-x509', ...NEW_KEY, ...own(name), '-out', `${name}.crt`, '-subj', `/CN=${name}`, '-days', '2'),
    sign: (name, authority) => {
      const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'];
      const signer = ['-CA', `${authority}.crt`, '-CAkey', `${authority}.key`];
      const request = `${name}.csr`;
      openssl('req', ...NEW_KEY, ...own(name), '-out', request, ...subject);
      openssl(
        'x509',
        '-req',
        '-in',
        request,
        ...signer,
        '-copy_extensions',
        'copy',
        '-days',
        '2',
        '-out',
        `${name}.crt`,
      );
    },
    remove: () => rm(directory, { recursive: true }),
  };
}
