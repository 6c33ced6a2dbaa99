import { connect, type Socket } from 'node:net';

export interface Answer {
  readonly status: number;
  /** Latin-1, since all that is looked for is ASCII and this costs least. */
  readonly text: string;
}

const READ_BYTES = 65_536;
const SILENCE_MS = 90_000;

/**
 * HTTP/1.1 over one kept-alive connection with at most one call under way. The connection is made by the first call, and by the
 * first after it was lost. Answers must say how long they are: chunked ones are refused.
 */
export class LeanClient {
  private readonly buffer = Buffer.allocUnsafeSlow(READ_BYTES);
  private readonly address: { readonly host: string; readonly port: number };
  private socket: Socket | undefined;
  private closed = false;
  private resolve: ((answer: Answer) => void) | undefined;
  private reject: ((error: Error) => void) | undefined;
  /** Of the answer, as far as it has come. */
  private received = '';
  /** How long the answer is with its head; 0 while that is not known. */
  private awaited = 0;

  constructor(base: string) {
    const { protocol, hostname, port } = new URL(base);
    if (protocol !== 'http:') throw new Error(`${protocol} is not supported`);
    this.address = { host: hostname, port: Number(port || 80) };
  }

  /** Sends a whole request, head and body. Answers whatever status came; throws when no answer came or none that can be read. */
  exchange(request: Buffer | string): Promise<Answer> {
    if (this.closed) return Promise.reject(new Error('the client is closed'));
    if (this.resolve !== undefined) return Promise.reject(new Error('a call is under way'));
    const answer = new Promise<Answer>(this.begin);
    this.socket ??= this.open();
    this.socket.write(request);
    return answer;
  }

  /** Ends the connection, the call under way too. */
  close(): void {
    this.closed = true;
    if (this.socket !== undefined) this.lose(this.socket, new Error('the client is closed'));
  }

  /** Kept, so that a call makes no closure of its own. */
  private readonly begin = (resolve: (answer: Answer) => void, reject: (error: Error) => void): void => {
    this.resolve = resolve;
    this.reject = reject;
  };

  private open(): Socket {
    const socket: Socket = connect({
      ...this.address,
      noDelay: true,
      // One buffer again and again, past the stream's queue: what is read is decoded before the next read.
      onread: { buffer: this.buffer, callback: (bytes) => this.read(socket, bytes) },
    });
    socket.on('error', (error) => this.lose(socket, error));
    socket.on('end', () => this.lose(socket, new Error('the connection was closed')));
    socket.on('close', () => this.lose(socket, new Error('the connection was closed')));
    socket.setTimeout(SILENCE_MS, () => {
      if (this.resolve !== undefined) this.lose(socket, new Error(`silence for ${SILENCE_MS / 1_000} s`));
    });
    return socket;
  }

  private read(socket: Socket, bytes: number): true {
    this.received += this.buffer.toString('latin1', 0, bytes);
    if (this.received.length < this.awaited) return true;
    try {
      this.take(socket);
    } catch (error) {
      this.lose(socket, error as Error);
    }
    return true;
  }

  /** Hands on the answer when all of it has come. */
  private take(socket: Socket): void {
    const { received, resolve } = this;
    if (resolve === undefined) throw new Error('an answer that was not asked for');
    const head = readHead(received);
    if (head === undefined) return;
    this.awaited = head.end;
    if (received.length < head.end) return;
    if (received.length > head.end) throw new Error('an answer longer than it says');
    this.forget();
    if (head.isLast) this.lose(socket, new Error('the connection was closed'));
    resolve({ status: head.status, text: received.slice(head.bodyAt) });
  }

  private lose(socket: Socket, error: Error): void {
    if (socket !== this.socket) return;
    const { reject } = this;
    this.socket = undefined;
    this.forget();
    socket.destroy();
    reject?.(error);
  }

  private forget(): void {
    this.resolve = undefined;
    this.reject = undefined;
    this.received = '';
    this.awaited = 0;
  }
}

interface Head {
  readonly status: number;
  readonly bodyAt: number;
  /** Where the body ends. */
  readonly end: number;
  /** The server ends the connection after this answer. */
  readonly isLast: boolean;
}

/** The head of an answer; undefined while it is not whole. Throws when it says what is not supported. */
function readHead(text: string): Head | undefined {
  const headEnd = text.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const head = text.slice(0, headEnd).toLowerCase();
  const status = Number(head.slice(9, 12));
  if (!head.startsWith('http/1.1 ') || !(status >= 200)) throw new Error(`not supported: ${head.slice(0, 40)}`);
  const length = status === 204 ? '0' : fieldOf(head, '\r\ncontent-length:');
  if (length === undefined) {
    throw new Error(`not supported: transfer-encoding ${fieldOf(head, '\r\ntransfer-encoding:') ?? 'none'}, no length`);
  }
  const bodyAt = headEnd + 4;
  const isLast = fieldOf(head, '\r\nconnection:')?.includes('close') === true;
  return { status, bodyAt, end: bodyAt + Number(length), isLast };
}

function fieldOf(head: string, name: string): string | undefined {
  const at = head.indexOf(name);
  if (at === -1) return undefined;
  const end = head.indexOf('\r\n', at + name.length);
  return head.slice(at + name.length, end === -1 ? undefined : end).trim();
}
