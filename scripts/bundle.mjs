// Puts the built daemon and its libraries into dist/aigwd: `node scripts/bundle.mjs [dist]`, after tsc. A start reads a few
// files instead of some hundreds, which takes half the time and leaves 20 MiB less in memory (docs/benchmarks.md).
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const dist = path.resolve(process.argv[2] ?? fileURLToPath(new URL('../dist', import.meta.url)))

const bundle = await rolldown({
  input: {
    main: path.join(dist, 'daemon/main.js'),
    // A thread is a program of its own; whoever starts it looks for this name beside itself.
    worker: path.join(dist, 'daemon/knowledge/extract/worker.js'),
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
