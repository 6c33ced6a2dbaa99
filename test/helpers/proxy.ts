import { once } from 'node:events';
import net from 'node:net';

/** What becomes of a chunk of bytes: passed on, lost in silence, or the end of its connection, before or after it is passed on. */
export type Verdict = 'pass' | 'drop' | 'cut' | 'pass-then-cut';

export interface ProxyLink {
  /** The application_name the client gave at its start; empty until then. */
  readonly name: string;
  /** Ends both sides without a word. */
  cut(): void;
}

export interface ProxyRules {
  /** Asked of each chunk on its way to Postgres. */
  toServer?: ((chunk: Buffer, link: ProxyLink) => Verdict) | undefined;
  /** Asked of each chunk on its way back. */
  toClient?: ((chunk: Buffer, link: ProxyLink) => Verdict) | undefined;
}

export interface Proxy {
  /** The database's URL, through this proxy. */
  readonly url: string;
  /** May be changed at any time. */
  readonly rules: ProxyRules;
  readonly links: ReadonlySet<ProxyLink>;
  close(): Promise<void>;
}

/** Stands between a service and its Postgres, and does to their connections what networks do. */
export async function startProxy(target: string): Promise<Proxy> {
  const to = new URL(target);
  const rules: ProxyRules = {};
  const links = new Set<ProxyLink>();
  const server = net.createServer((client) => {
    const link = new Link(client, net.connect(Number(to.port), to.hostname), rules);
    links.add(link);
    client.once('close', () => links.delete(link));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as net.AddressInfo).port);
  return {
    url: url.href,
    rules,
    links,
    close: async () => {
      for (const link of links) link.cut();
      server.close();
      await once(server, 'close');
    },
  };
}

class Link implements ProxyLink {
  name = '';

  constructor(
    private readonly client: net.Socket,
    private readonly server: net.Socket,
    rules: ProxyRules,
  ) {
    client.on('data', (chunk) => {
      if (this.name === '') this.name = /application_name\0([^\0]*)\0/.exec(chunk.toString('latin1'))?.[1] ?? '';
      this.carry(chunk, server, rules.toServer);
    });
    server.on('data', (chunk) => this.carry(chunk, client, rules.toClient));
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      // A reset is what these tests are about; both sides are ended by its 'close'.
      socket.on('error', () => undefined);
      socket.on('close', () => this.cut());
    }
  }

  cut(): void {
    this.client.destroy();
    this.server.destroy();
  }

  private carry(chunk: Buffer, to: net.Socket, rule: ProxyRules['toServer']): void {
    const verdict = rule?.(chunk, this) ?? 'pass';
    if (verdict === 'pass') to.write(chunk);
    else if (verdict === 'cut') this.cut();
    else if (verdict === 'pass-then-cut') to.write(chunk, () => this.cut());
  }
}
