# Image of the gateway. Build: docker build -t aigw .
# The image runs as the user `node` (uid 1000). All state is in /var/lib/aigw, so the root may be read-only.
ARG NODE_VERSION=22

FROM node:${NODE_VERSION}-bookworm-slim AS build
WORKDIR /src
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts && npm rebuild sqlite3
COPY . .
RUN npm run build && npm prune --omit=dev --ignore-scripts \
  && rm -rf dist/daemon && find node_modules dist -name '*.map' -delete

FROM node:${NODE_VERSION}-bookworm-slim
ENV NODE_ENV=production \
    AIGW_LISTEN=0.0.0.0:8787 \
    AIGW_DATA_DIR=/var/lib/aigw \
    AIGW_BASE_URL=http://127.0.0.1:8787
WORKDIR /opt/aigw
COPY --from=build /src/package.json /src/LICENSE ./
COPY --from=build /src/bin bin
COPY --from=build /src/dist dist
COPY --from=build /src/deploy deploy
COPY --from=build /src/docs/verifiers docs/verifiers
COPY --from=build /src/node_modules node_modules
RUN ln -s /opt/aigw/bin/aigw.js /usr/local/bin/aigw \
  && ln -s /opt/aigw/bin/aigwd.js /usr/local/bin/aigwd \
  && install -d -o node -g node -m 0700 /var/lib/aigw
USER node
VOLUME /var/lib/aigw
EXPOSE 8787
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 CMD ["aigw", "health", "--ready", "--quiet"]
ENTRYPOINT ["aigwd"]
