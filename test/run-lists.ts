// Lists of test files by how they run. Read by vitest.config.ts and vitest.runtime.config.ts; checked by
// run-lists.test.ts.

/** Path parts of slow test files. They start first, so that no worker is still busy after all others have ended. */
export const LONG: readonly string[] = [
  '/e2e/',
  'test/clients.test',
  '/contract/',
  '/faults/',
  '/receivers/',
  '/cli/process.',
  '/evidence/verification.',
]

/** Files that need their own process: they measure memory, change built-ins, mock modules or kill processes. */
export const OWN_PROCESS: readonly string[] = [
  'test/e2e',
  'test/faults',
  'test/cli',
  'test/receivers',
  'test/daemon/main.test.ts',
  'test/daemon/platform/db',
  'test/daemon/gateway/chat/failing-guards.test.ts',
  'test/daemon/gateway/chat/slots.test.ts',
  'test/daemon/models',
]

/**
 * The tests that CI repeats on the second Node version, each with the part of Node that it tests. Other code does not
 * depend on the Node version.
 */
export const RUNTIME: Readonly<Record<string, string>> = {
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
  'test/daemon/knowledge/search/ranker.test.ts': 'a worker thread and its messages',
  'test/daemon/main.test.ts': 'signals, exit codes, environment',
  'test/daemon/platform/log.test.ts': 'writes to standard output at the end of a process',
  'test/cli/process.test.ts': 'the command line as a process, pipes and terminals',
  'test/cli/commands/chat': 'readline',
  'test/e2e/bundle.test.ts': 'the bundled daemon',
  'test/e2e/cli.test.ts': 'both programs together',
  'test/e2e/kill.test.ts': 'durability after kill -9',
}

/** Glob patterns of these files and directories. */
export const patternsOf = (paths: readonly string[]): string[] =>
  paths.map((path) => (path.endsWith('.ts') ? path : `${path}/**/*.test.ts`))
