import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { experimental, ServerCredentials } from '@grpc/grpc-js';
import type { Log } from '../observability/log.js';

/** Files in PEM. */
export interface TlsFiles {
  readonly certificate: string;
  readonly key: string;
  /** Of those who sign the clients' certificates: with it a client must have one. */
  readonly clientAuthority: string | undefined;
}

const LOOK_EVERY_MS = 5_000;

type Provider = experimental.CertificateProvider;
type IdentityListener = experimental.IdentityCertificateUpdateListener;
type AuthorityListener = experimental.CaCertificateUpdateListener;

interface Loaded {
  readonly certificate: Buffer;
  readonly privateKey: Buffer;
  readonly caCertificate: Buffer | undefined;
}

/**
 * What the server proves itself with, read again when the files change. The library's own watcher drops certificates while a file is
 * missing, and takes a key that does not fit; here what fits no longer is left unused until it does, and said.
 */
class Certificates implements Provider {
  readonly #identity = new Set<IdentityListener>();
  readonly #authority = new Set<AuthorityListener>();
  #timer: NodeJS.Timeout | undefined;
  #refused = '';

  constructor(
    private readonly files: TlsFiles,
    private loaded: Loaded,
    private readonly log: Pick<Log, 'info' | 'warn'>,
  ) {}

  addIdentityCertificateListener(listener: IdentityListener): void {
    this.#identity.add(listener);
    // The library listens to itself only after this.
    process.nextTick(listener, this.loaded);
    this.#watch();
  }

  removeIdentityCertificateListener(listener: IdentityListener): void {
    this.#identity.delete(listener);
    this.#watch();
  }

  addCaCertificateListener(listener: AuthorityListener): void {
    this.#authority.add(listener);
    process.nextTick(() => this.#tell(listener));
    this.#watch();
  }

  removeCaCertificateListener(listener: AuthorityListener): void {
    this.#authority.delete(listener);
    this.#watch();
  }

  #tell(listener: AuthorityListener): void {
    const { caCertificate } = this.loaded;
    if (caCertificate !== undefined) listener({ caCertificate });
  }

  #watch(): void {
    const isWatched = this.#identity.size + this.#authority.size > 0;
    if (!isWatched) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    } else this.#timer ??= setInterval(() => void this.#look(), LOOK_EVERY_MS).unref();
  }

  async #look(): Promise<void> {
    try {
      const found = await load(this.files);
      this.#refused = '';
      if (sameAs(found, this.loaded)) return;
      this.loaded = found;
      this.log.info('took new certificates for gRPC');
      for (const listener of this.#identity) listener(found);
      for (const listener of this.#authority) this.#tell(listener);
    } catch (error) {
      const { message } = error as Error;
      if (message !== this.#refused) this.log.warn({ reason: message }, 'new certificates for gRPC are not taken');
      this.#refused = message;
    }
  }
}

/** Plaintext without files. Rejects with an Error in plain words for files that are missing or do not fit together. */
export async function serverCredentials(files: TlsFiles | undefined, log: Log): Promise<ServerCredentials> {
  if (files === undefined) return ServerCredentials.createInsecure();
  const certificates = new Certificates(files, await load(files), log);
  const authority = files.clientAuthority === undefined ? null : certificates;
  return experimental.createCertificateProviderServerCredentials(certificates, authority, authority !== null);
}

async function load({ certificate, key, clientAuthority }: TlsFiles): Promise<Loaded> {
  const read = (file: string, what: string, variable: string): Promise<Buffer> =>
    readFile(file).catch((error: unknown) => {
      throw new Error(`${variable}: the ${what} for gRPC cannot be read: ${(error as Error).message}`);
    });
  const loaded = {
    certificate: await read(certificate, 'certificate', 'STINT_GRPC_TLS_CERT_FILE'),
    privateKey: await read(key, 'private key', 'STINT_GRPC_TLS_KEY_FILE'),
    caCertificate:
      clientAuthority === undefined
        ? undefined
        : await read(clientAuthority, 'client authority', 'STINT_GRPC_TLS_CLIENT_CA_FILE'),
  };
  try {
    createSecureContext({ cert: loaded.certificate, key: loaded.privateKey, ca: loaded.caCertificate });
  } catch (error) {
    throw new Error(
      `STINT_GRPC_TLS_…: the certificate, key and authority for gRPC do not fit: ${(error as Error).message}`,
      {
        cause: error,
      },
    );
  }
  return loaded;
}

function sameAs(a: Loaded, b: Loaded): boolean {
  const isSame = (one: Buffer | undefined, other: Buffer | undefined): boolean =>
    one === undefined || other === undefined ? one === other : one.equals(other);
  return (
    isSame(a.certificate, b.certificate) &&
    isSame(a.privateKey, b.privateKey) &&
    isSame(a.caCertificate, b.caCertificate)
  );
}
