# Stint, and with --target worker the example worker. The steps are npm scripts, so that test/image takes them without an engine.
#
# Debian's slim image: the builds of Node's own project are for glibc; Alpine's is another build, on another allocator. The tag is exact,
# but a registry can move a tag. To be sure of the bytes, give the digest that yours has checked:
#   docker build --build-arg NODE=node:24.21.0-trixie-slim@sha256:… --tag stint .
ARG NODE=node:24.21.0-trixie-slim

FROM ${NODE} AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --omit=optional --ignore-scripts --no-fund --no-audit
COPY . .
RUN npm run build && npm run image:files

FROM ${NODE} AS worker
LABEL org.opencontainers.image.title="Stint's example worker" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /build/dist/image/worker /opt/worker
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK NONE
ENTRYPOINT ["node", "/opt/worker/worker.js"]

FROM ${NODE} AS stint
LABEL org.opencontainers.image.title="Stint" \
      org.opencontainers.image.description="A multi-tenant queue as a service on Postgres" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="MIT"
# Owned by root: the service can read all of it and write none.
COPY --from=build /build/dist/image/stint /opt/stint
ENV PATH=/opt/stint/bin:$PATH
WORKDIR /opt/stint
USER 10001:10001
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
# /livez and not /readyz: what is unhealthy is restarted by some engines, which does not bring back a database that is away.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 \
  CMD ["node", "--eval", "fetch(`http://127.0.0.1:${process.env.STINT_HTTP_PORT ?? 8080}/livez`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["stint"]
CMD ["serve"]
