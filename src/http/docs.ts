import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';

/** The page has no inline script and fetches nothing from elsewhere; Swagger UI sets styles of its own. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Serves the reference at `/docs`: Swagger UI with its assets from here, which can send requests with a pasted key. */
export async function addDocs(app: FastifyInstance, openApi: object): Promise<void> {
  await app.register(async (scope) => {
    scope.addHook('onSend', async (_request, reply) => {
      reply.header('content-security-policy', CONTENT_SECURITY_POLICY).header('x-content-type-options', 'nosniff');
    });
    await scope.register(swagger, { mode: 'static', specification: { document: openApi as never } });
    await scope.register(swaggerUi, {
      routePrefix: '/docs',
      uiConfig: { tryItOutEnabled: true, displayRequestDuration: true, docExpansion: 'list' },
      theme: { title: 'Stint: reference' },
    });
  });
}
