import { once } from 'node:events';
import net from 'node:net';

/** How a link treats the bytes that come by; a mute one keeps them, and takes new connections without a word. */
export type LinkMode = 'pass' | 'mute' | 'slow';

const SLOW_MS = 150;

/** A TCP proxy on the way to one address, which may become bad in the ways that networks do. */
export class Link {
  mode: LinkMode = 'pass';
  private readonly pairs = new Set<Pair>();
  private readonly server: net.Server;

  private constructor(private readonly target: { readonly host: string; readonly port: number }) {
    this.server = net.createServer((client) => this.accept(client));
  }

  static async open(target: { readonly host: string; readonly port: number }): Promise<Link> {
    const link = new Link(target);
    link.server.listen(0, '127.0.0.1');
    await once(link.server, 'listening');
    return link;
  }

  get port(): number {
    return (this.server.address() as net.AddressInfo).port;
  }

  /** From now on; bytes that a mute link has kept go on their way when it passes again. */
  setMode(mode: LinkMode): void {
    this.mode = mode;
    for (const pair of this.pairs) pair.follow(mode);
  }

  /** Ends all connections with a TCP reset. */
  reset(): void {
    for (const pair of this.pairs) pair.reset();
  }

  async close(): Promise<void> {
    this.reset();
    this.server.close();
    await once(this.server, 'close');
  }

  private accept(client: net.Socket): void {
    const pair = new Pair(client, net.connect(this.target.port, this.target.host));
    this.pairs.add(pair);
    pair.follow(this.mode);
    client.once('close', () => this.pairs.delete(pair));
  }
}

class Pair {
  private mode: LinkMode = 'pass';

  constructor(
    private readonly client: net.Socket,
    private readonly server: net.Socket,
  ) {
    client.on('data', (chunk) => this.carry(chunk, server));
    server.on('data', (chunk) => this.carry(chunk, client));
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      // Resets are what these links are for; both sides are ended by the 'close' of one.
      socket.on('error', () => undefined);
      socket.on('close', () => this.reset());
    }
  }

  follow(mode: LinkMode): void {
    this.mode = mode;
    for (const socket of [this.client, this.server]) {
      if (mode === 'mute') socket.pause();
      else socket.resume();
    }
  }

  reset(): void {
    for (const socket of [this.client, this.server]) if (!socket.destroyed) socket.resetAndDestroy();
  }

  /** A slow link keeps the order of its chunks, since each is kept for the same time. */
  private carry(chunk: Buffer, to: net.Socket): void {
    if (this.mode !== 'slow') to.write(chunk);
    else setTimeout(() => to.destroyed || to.write(chunk), SLOW_MS);
  }
}
