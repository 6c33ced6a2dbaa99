import { execFileSync } from 'node:child_process';
import { chown, copyFile, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { startEmbedded } from '../../src/db/embedded.js';
import { query } from '../helpers/postgres.js';
import { until } from '../helpers/service.js';

const HBA = 'hostssl all all 127.0.0.1/32 scram-sha-256\n';

/** A Postgres that takes encrypted connections only, with a certificate for `localhost`. */
export interface TlsPostgres {
  /** For its superuser, to be completed by `?sslmode=…`. */
  urlOf(host: string): string;
  /** Certificate of the authority that has signed the server's. */
  readonly authority: string;
  /** That of another one of the same name. */
  readonly stranger: string;
  stop(): Promise<void>;
}

export async function startTlsPostgres(): Promise<TlsPostgres> {
  const directory = await mkdtemp(path.join(tmpdir(), 'stint-tls-'));
  const certificates = await mkdtemp(path.join(tmpdir(), 'stint-certificates-'));
  const remove = async (): Promise<void> => {
    for (const made of [directory, certificates]) await rm(made, { recursive: true, force: true, maxRetries: 10 });
  };
  try {
    const log = pino({ level: 'silent' });
    const server = await startEmbedded({ dataDirectory: directory, settings: { fsync: 'off' }, log });
    makeCertificates(certificates);
    await encryptOnly(server.url, path.join(directory, 'postgres', 'data'), certificates);
    return {
      urlOf: (host) => server.url.replace('127.0.0.1', host),
      authority: path.join(certificates, 'authority.crt'),
      stranger: path.join(certificates, 'stranger.crt'),
      stop: async () => {
        await server.stop();
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

function makeCertificates(directory: string): void {
  const openssl = (...args: string[]): void => {
    execFileSync('openssl', args, { cwd: directory, stdio: 'pipe' });
  };
  const key = (name: string): string[] => ['-newkey', 'rsa:2048', '-nodes', '-keyout', `${name}.key`];
  for (const name of ['authority', 'stranger']) {
    openssl('req', '-x509', ...key(name), '-out', `${name}.crt`, '-subj', '/CN=stint test', '-days', '2');
  }
  openssl(
    ...['req', ...key('server'), '-out', 'server.csr', '-subj', '/CN=localhost'],
    ...['-addext', 'subjectAltName=DNS:localhost'],
  );
  openssl(
    ...['x509', '-req', '-in', 'server.csr', '-out', 'server.crt', '-days', '2', '-copy_extensions', 'copy'],
    ...['-CA', 'authority.crt', '-CAkey', 'authority.key', '-CAcreateserial'],
  );
}

/** Puts the certificate where Postgres looks for it, as its own, and has it refuse connections without. */
async function encryptOnly(url: string, cluster: string, certificates: string): Promise<void> {
  const { uid, gid } = await stat(cluster);
  for (const name of ['server.crt', 'server.key']) {
    const file = path.join(cluster, name);
    await copyFile(path.join(certificates, name), file);
    await chown(file, uid, gid);
  }
  await writeFile(path.join(cluster, 'pg_hba.conf'), HBA);
  await query(url, 'alter system set ssl = on');
  await query(url, 'select pg_reload_conf()');
  await until(
    'plaintext is refused',
    () =>
      query(url, 'select').then(
        () => false,
        (error: unknown) => (error as { code?: string }).code === '28000',
      ),
    10_000,
  );
}
