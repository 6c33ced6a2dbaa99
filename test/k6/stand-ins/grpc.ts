import path from 'node:path';
import { callSync } from './caller.js';
import { measure, refuseInInit, stage } from './stage.js';

/** Where the service's reflection has its answers from. */
const CONTRACT = new URL('../../../../proto', import.meta.url).pathname;

interface Connection {
  readonly target: string;
  readonly proto: string;
}

interface Params {
  readonly metadata?: Record<string, string>;
  readonly tags?: Record<string, string>;
  readonly timeout?: string;
}

class Client {
  private directory: string | undefined;
  private connection: Connection | undefined;

  load(directories: string[], ...files: string[]): void {
    if (stage.phase !== 'init') throw new Error('load is to be called in the init context');
    if (directories.length !== 1 || files.join() !== 'stint/v1/jobs.proto') throw new Error('not stood in for');
    this.directory = path.resolve(stage.folder, directories[0]!);
  }

  connect(target: string, { plaintext = false, reflect = false } = {}): void {
    refuseInInit('connect');
    if (!plaintext) throw new Error('TLS is not stood in for');
    const proto = reflect ? CONTRACT : this.directory;
    if (proto === undefined) throw new Error('no contract: neither load nor reflect');
    this.connection = { target, proto };
  }

  invoke(method: string, message: object, { metadata = {}, tags = {}, timeout = '120s' }: Params = {}) {
    if (this.connection === undefined) throw new Error('no connection: connect comes first');
    const timeoutMs = 1000 * Number.parseFloat(timeout);
    const answer = callSync({ kind: 'grpc', ...this.connection, method, message, metadata, timeoutMs });
    const { status, error } = answer;
    measure('grpc_req_duration', answer.milliseconds, { method, status: String(status), ...tags });
    return { status, message: answer.message, error: status === 0 ? null : { code: status, message: error } };
  }

  close(): void {
    this.connection = undefined;
  }
}

export default {
  Client,
  StatusOK: 0,
  StatusResourceExhausted: 8,
  StatusUnavailable: 14,
};
