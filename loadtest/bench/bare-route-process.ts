import type { AddressInfo } from 'node:net';
import fastify from 'fastify';
import { v7 } from 'uuid';
import { buildOpenApi } from '../../src/http/openapi.js';
import { operations } from '../../src/operations.js';

/*
 * What the service's route for one enqueue would be if it did nothing: it validates the same body by the same JSON Schema, and
 * answers at once with an id. Started by `bare-route.ts`.
 */

interface Described {
  readonly paths: Readonly<
    Record<
      string,
      {
        readonly post: {
          readonly requestBody: { readonly content: Readonly<Record<string, { readonly schema: object }>> };
        };
      }
    >
  >;
}

const api = buildOpenApi(operations, '0') as unknown as Described;
const body = api.paths['/v1/queues/{queue}/jobs']!.post.requestBody.content['application/json']!.schema;

const app = fastify({ ajv: { customOptions: { strict: false, coerceTypes: false, removeAdditional: false } } });
app.post('/v1/queues/:queue/jobs', { schema: { body } }, (_request, reply) => {
  const now = new Date().toISOString();
  void reply.code(201).send({ id: v7(), state: 'ready', enqueuedAt: now, runAt: now, deduplicated: false });
});
process.on('disconnect', () => process.exit(0));
await app.listen({ host: '127.0.0.1', port: 0 });
process.send!({ port: (app.server.address() as AddressInfo).port });
