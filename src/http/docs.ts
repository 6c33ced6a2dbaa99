import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import { SECURITY_HEADERS } from './security-headers.js';

/** The page has neither script nor style inline and fetches nothing from elsewhere; some of its pictures are in its style sheet. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const HEADERS = { ...SECURITY_HEADERS, 'content-security-policy': CONTENT_SECURITY_POLICY };

/** Serves the reference at `/docs`: Swagger UI with its assets from here, which can send requests with a pasted key. */
export async function addDocs(app: FastifyInstance, openApi: object): Promise<void> {
  await app.register(async (scope) => {
    scope.addHook('onSend', async (_request, reply) => {
      reply.headers(HEADERS);
      if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store');
    });
    await scope.register(swagger, { mode: 'static', specification: { document: openApi as never } });
    await scope.register(swaggerUi, {
      routePrefix: '/docs',
      // Without the bar on top: its logo has a style inside, which the policy refuses, and it offers to show other documents.
      uiConfig: { layout: 'BaseLayout', tryItOutEnabled: true, displayRequestDuration: true, docExpansion: 'list' },
      theme: { title: 'Stint: reference' },
    });
  });
}
