import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { golden } from './chart.js';

/** Runs the command of the CronJob against a server that answers with `status`. */
async function tickOnce(status: number) {
  const job = golden('sleeping').find(({ kind }) => kind === 'CronJob')!;
  const [container] = job['spec'].jobTemplate.spec.template.spec.containers;
  const [program, ...args] = container.command as string[];
  assert.equal(program, 'node');
  const url = new URL(container.env.find(({ name }: { name: string }) => name === 'URL').value as string);
  const calls: { method: string | undefined; path: string | undefined; headers: IncomingHttpHeaders }[] = [];
  const server = createServer((request, response) => {
    calls.push({ method: request.method, path: request.url, headers: request.headers });
    response.writeHead(status, { 'content-type': 'application/json' }).end('{"did":[]}');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  const child = spawn(process.execPath, args, { env: { URL: url.href, TICK_KEY: 'a-key-of-scope-tick' } });
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  server.close();
  return { code, calls, said };
}

test('the CronJob calls the tick with its key, once, and says what was answered', async () => {
  const { code, calls, said } = await tickOnce(200);
  assert.equal(code, 0);
  assert.equal(said, '200 {"did":[]}\n');
  assert.equal(calls.length, 1);
  assert.equal(calls[0]!.method, 'POST');
  assert.equal(calls[0]!.path, '/v1/tick');
  assert.equal(calls[0]!.headers.authorization, 'Bearer a-key-of-scope-tick');
});

test('the Job of a tick that the service could not carry out has failed', async () => {
  assert.equal((await tickOnce(503)).code, 1);
});
