// The quick start: starts a daemon on a temporary directory, indexes this repository's documents and streams one billed
// chat. At the end, stops the daemon and removes the directory, unless --keep is given.
// Run: npm run quickstart [-- --keep]
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const INDEX = 'handbook'
const QUESTION = 'How do I make a backup?'
const START_LIMIT_MS = 30_000
const keep = process.argv.includes('--keep')
const root = fileURLToPath(new URL('..', import.meta.url))
const bin = (name) => join(root, 'bin', name)
// The cleanup must run even if the reader of stdout exits early, as `head` does.
process.stdout.on('error', () => {})
const say = (text = '') => process.stdout.write(`${text}\n`)

if (!existsSync(join(root, 'dist'))) {
  say('The project is not built yet; run: npm ci')
  process.exit(1)
}

const directory = await mkdtemp(join(tmpdir(), 'aigw-quickstart-'))
const dataDir = join(directory, 'state')
const logFile = join(directory, 'aigwd.log')
const daemon = await startDaemon()
const daemonGone = once(daemon, 'exit')
let failed = false
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => {
    failed = true
    daemon.kill('SIGTERM')
  })
}

try {
  const url = await listening()
  const key = (await readFile(join(dataDir, 'admin.key'), 'utf8')).trim()
  const env = cliEnvironment(url, key)
  say(`aigwd listens on ${url}, its data is in ${dataDir}`)

  await aigw(env, 'indexes', 'create', INDEX, '--description', 'The documents of this repository')
  await aigw(env, 'indexes', 'add', INDEX, ...(await pages()))
  await aigw(env, 'chat', '-m', 'local/extract', '-i', INDEX, '--sources', '--usage', QUESTION)
  await showBill()
  nextSteps(url)
} catch (error) {
  failed = true
  say(`\nThe quick start failed: ${error.message}`)
} finally {
  if (keep && !failed) {
    daemon.unref()
  } else {
    daemon.kill('SIGTERM')
    await daemonGone
    await rm(directory, { recursive: true, force: true })
  }
}
process.exitCode = failed ? 1 : 0

/** Starts a daemon that ignores the caller's environment and this machine's configuration. */
async function startDaemon() {
  const config = join(directory, 'aigw.yaml')
  await writeFile(config, '')
  // The daemon logs to a file, not to a pipe: with --keep, it outlives this script, which would be the pipe's only
  // reader.
  const log = await open(logFile, 'a', 0o600)
  const { PATH, HOME, TMPDIR } = process.env
  const child = spawn(
    process.execPath,
    [bin('aigwd.js'), '--config', config, '--data-dir', dataDir, '--listen', '127.0.0.1:0'],
    {
      // The daemon has its own process group, so Ctrl-C reaches it only through this script. If this script is killed,
      // the pipe closes and the daemon exits.
      detached: true,
      stdio: ['ignore', log.fd, log.fd, ...(keep ? [] : ['pipe'])],
      env: { PATH, HOME, ...(TMPDIR && { TMPDIR }), ...(!keep && { AIGW_PARENT_PIPE: '3' }) },
    },
  )
  await log.close()
  return child
}

/** Waits for the listening message in the daemon's log, and returns its URL. */
async function listening() {
  for (const start = Date.now(); Date.now() - start < START_LIMIT_MS; await wait(20)) {
    const written = await readFile(logFile, 'utf8')
    // The daemon may still be writing the last line.
    for (const line of written.split('\n').slice(0, -1)) {
      const entry = line.startsWith('{') ? JSON.parse(line) : {}
      if (entry.msg === 'listening') return entry.url
    }
    if (daemon.exitCode !== null || daemon.signalCode !== null)
      throw new Error(`the daemon exited before it listened:\n${written}`)
  }
  throw new Error(`the daemon did not listen within ${START_LIMIT_MS / 1000} s`)
}

/** The caller's environment without aigw settings. The CLI must not read or write the user's profiles. */
function cliEnvironment(url, key) {
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith('AIGW_'))
  return {
    ...Object.fromEntries(others),
    AIGW_BASE_URL: url,
    AIGW_API_KEY: key,
    XDG_CONFIG_HOME: join(directory, 'cli'),
    AIGW_NO_HISTORY: '1',
  }
}

/** The pages for users, without generated files such as docs/openapi.json and without decision records. */
async function pages() {
  const docs = await readdir(join(root, 'docs'))
  return [
    'README.md',
    'ARCHITECTURE.md',
    ...docs.filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
    'docs/how-to',
  ]
}

/** Prints a command of the CLI and runs it. */
async function aigw(env, ...args) {
  say(`\n$ aigw ${args.map((arg) => (/[\s?]/.test(arg) ? `"${arg}"` : arg)).join(' ')}`)
  const child = spawn(process.execPath, [bin('aigw.js'), ...args], {
    cwd: root,
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`aigw ${args[0]} failed with exit code ${code}`)
}

/** Prints the bill in the answer's receipt. The receipt was committed before the last byte of the answer was sent. */
async function showBill() {
  const { openDatabase } = await import('../dist/daemon/platform/db/database.js')
  const db = await openDatabase({ kind: 'sqlite', dataDir })
  const { payloadOf } = await import('../dist/daemon/records/evidence/entry-payload.js')
  const entry = await db
    .selectFrom('evidence_entries')
    .selectAll()
    .where('id', 'like', 'jti-%')
    .executeTakeFirstOrThrow()
  await db.destroy()
  const { model, status, result, metadata, usage, cost, policy, times } = payloadOf(entry)
  const bill = { model, status, result, ...metadata, ...usage, ...cost, policy: policy.name, ...times }
  say(`\nThe bill in the receipt of that answer, from ${join(dataDir, 'aigw.db')}:`)
  for (const [name, value] of Object.entries(bill)) if (value !== null) say(`  ${name.padEnd(20)} ${value}`)
}

function nextSteps(url) {
  say('\nNext steps:')
  if (keep) {
    say(`  export AIGW_BASE_URL=${url} AIGW_API_KEY="$(cat '${dataDir}/admin.key')"`)
    say(`  node bin/aigw.js chat -m local/extract -i ${INDEX} "your question"`)
    say(`  kill ${daemon.pid}            stops the daemon; its log is ${logFile}`)
    say(`  rm -r '${directory}'   removes its data; run it after the daemon has stopped`)
  } else {
    say('  npm run quickstart -- --keep        the same, and the daemon keeps running')
    say('  node bin/aigwd.js --help            start your own daemon; see docs/configuration.md')
  }
  say('  OPENAI_API_KEY=… node bin/aigwd.js   offers openai/<model> in addition to local/extract')
}
