// Puts the built daemon and its libraries into dist/aigwd: `node scripts/bundle.mjs [dist]`, after tsc. A start reads a few
// files instead of some hundreds, which takes half the time and leaves 20 MiB less in memory (docs/benchmarks.md).
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const dist = path.resolve(process.argv[2] ?? fileURLToPath(new URL('../dist', import.meta.url)))

const bundle = await rolldown({
  input: {
    main: path.join(dist, 'daemon/main.js'),
    // Processes and threads are programs of their own; whoever starts them looks for these names beside itself.
    process: path.join(dist, 'daemon/knowledge/ingest/extract/process.js'),
    worker: path.join(dist, 'daemon/knowledge/ingest/extract/worker.js'),
  },
  platform: 'node',
  // Native code, and what is loaded only when it is needed and may look for files of its own package.
  external: ['sqlite3', 'sqlite-vec', 'pg', 'unpdf', 'mammoth', '@e965/xlsx'],
  logLevel: 'warn',
})
await bundle.write({
  dir: path.join(dist, 'aigwd'),
  format: 'esm',
  sourcemap: true,
  chunkFileNames: '[name]-[hash].js',
})
await bundle.close()
