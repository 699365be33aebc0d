// Bundles the built daemon and its libraries into dist/aigwd. Run after tsc: node scripts/bundle.mjs [dist]
// Loading a few files instead of hundreds halves the start time and saves 20 MiB of memory (docs/benchmarks.md).
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const dist = path.resolve(process.argv[2] ?? fileURLToPath(new URL('../dist', import.meta.url)))

const bundle = await rolldown({
  input: {
    main: path.join(dist, 'daemon/main.js'),
    // Entry points of processes and threads. The code that starts these processes and threads expects these file names
    // in its own folder.
    process: path.join(dist, 'daemon/knowledge/ingest/extract/process.js'),
    worker: path.join(dist, 'daemon/knowledge/ingest/extract/worker.js'),
    'ranking-thread': path.join(dist, 'daemon/knowledge/search/thread/ranking-thread.js'),
    'model-thread': path.join(dist, 'daemon/safety/prompt-shield/model/model-thread.js'),
  },
  platform: 'node',
  // Native modules cannot be bundled. The other packages in this list are loaded on demand and may read files of their
  // own package.
  external: [
    ...['sqlite3', 'sqlite-vec', 'pg', 'unpdf', 'mammoth', '@e965/xlsx', 'onnxruntime-node'],
    ...['age-encryption', 'tar-stream', 'pg-copy-streams'],
    // prom-client needs the API at every start, so the API is bundled.
    /^@opentelemetry\/(?!api$)/,
  ],
  logLevel: 'warn',
})
await bundle.write({
  dir: path.join(dist, 'aigwd'),
  format: 'esm',
  sourcemap: true,
  chunkFileNames: '[name]-[hash].js',
})
await bundle.close()
