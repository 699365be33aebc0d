import { existsSync } from 'node:fs'
import { isolated } from './vitest.config.ts'

// The tests that CI repeats on the second Node version: `npx vitest run --config vitest.runtime.config.ts`. They depend on
// what differs between versions of Node. All other code computes in JavaScript alone, and one version shows its faults.

/** Directories and files, each with the part of Node that it tests. */
const RUNTIME: Readonly<Record<string, string>> = {
  'test/daemon/platform/http': 'node:http server, drain, streams to clients',
  'test/daemon/models': 'client connections, TLS, stream and text decoding',
  'test/faults/faults-streamed.test.ts': 'socket errors and half-closed connections',
  'test/faults/disconnect.test.ts': 'aborted requests',
  'test/daemon/webhooks/attempt.test.ts': 'outgoing requests with their own lookup',
  'test/daemon/platform/db': 'native SQLite driver, PostgreSQL client, file locks',
  'test/daemon/records/ledger': 'commits under load on both drivers',
  'test/daemon/records/evidence': 'hashes, keys and signatures of node:crypto',
  'test/shared/evidence': 'the same in the verifier',
  'test/daemon/platform/secrets': 'ciphers and key derivation of node:crypto',
  'test/daemon/platform/text': 'Intl.Segmenter and Unicode tables',
  'test/daemon/knowledge/ingest/extract': 'child processes, threads, zlib',
  'test/daemon/main.test.ts': 'signals, exit codes, environment',
  'test/daemon/platform/log.test.ts': 'writes to standard output at the end of a process',
  'test/cli/process.test.ts': 'the command line as a process, pipes and terminals',
  'test/cli/chat': 'readline',
  'test/e2e/bundle.test.ts': 'the bundled daemon',
  'test/e2e/cli.test.ts': 'both programs together',
  'test/e2e/kill.test.ts': 'durability after kill -9',
}

const missing = Object.keys(RUNTIME).filter((path) => !existsSync(path))
if (missing.length > 0) throw new Error(`vitest.runtime.config.ts names what does not exist: ${missing.join(', ')}`)

export default isolated(Object.keys(RUNTIME).map((path) => (path.endsWith('.ts') ? path : `${path}/**/*.test.ts`)))
