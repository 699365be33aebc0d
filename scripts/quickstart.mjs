// From nothing to an answered, billed question: a daemon on a scratch directory, an index of this repository's own
// documents, one streamed chat. Leaves nothing behind unless --keep is given.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const INDEX = 'handbook'
const QUESTION = 'When does the last byte of an answer leave the gateway?'
const START_LIMIT_MS = 30_000
const keep = process.argv.includes('--keep')
const root = fileURLToPath(new URL('..', import.meta.url))
const bin = (name) => join(root, 'bin', name)
// Whoever reads may stop, as `head` does; what was started is still to be cleaned up.
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
  await aigw(env, 'indexes', 'add', INDEX, 'README.md', 'ARCHITECTURE.md', 'docs')
  await aigw(env, 'chat', '-m', 'local/extract', '-i', INDEX, '--sources', '--usage', QUESTION)
  await showUsageRow()
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

/** A daemon that nothing of the caller's environment or of this machine configures. */
async function startDaemon() {
  const config = join(directory, 'aigw.yaml')
  await writeFile(config, '')
  // A file, because a kept daemon goes on writing when nobody is left to read a pipe.
  const log = await open(logFile, 'a', 0o600)
  const { PATH, HOME, TMPDIR } = process.env
  const child = spawn(
    process.execPath,
    [bin('aigwd.js'), '--config', config, '--data-dir', dataDir, '--listen', '127.0.0.1:0'],
    {
      // Its own group, so that Ctrl-C reaches it through us alone. The pipe ends it should we be killed.
      detached: true,
      stdio: ['ignore', log.fd, log.fd, ...(keep ? [] : ['pipe'])],
      env: { PATH, HOME, ...(TMPDIR && { TMPDIR }), ...(!keep && { AIGW_PARENT_PIPE: '3' }) },
    },
  )
  await log.close()
  return child
}

/** The URL from the daemon's log, once it is there. */
async function listening() {
  for (const start = Date.now(); Date.now() - start < START_LIMIT_MS; await wait(20)) {
    const written = await readFile(logFile, 'utf8')
    // The last line may still be on its way.
    for (const line of written.split('\n').slice(0, -1)) {
      const entry = line.startsWith('{') ? JSON.parse(line) : {}
      if (entry.msg === 'listening') return entry.url
    }
    if (daemon.exitCode !== null || daemon.signalCode !== null)
      throw new Error(`the daemon ended before it listened:\n${written}`)
  }
  throw new Error('the daemon does not listen')
}

/** The caller's, but for what would point the CLI elsewhere: it must not read or write anyone's profiles. */
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

/** Runs one command of the CLI as a person would, and shows it. */
async function aigw(env, ...args) {
  say(`\n$ aigw ${args.map((arg) => (/[\s?]/.test(arg) ? `"${arg}"` : arg)).join(' ')}`)
  const child = spawn(process.execPath, [bin('aigw.js'), ...args], {
    cwd: root,
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`aigw ${args[0]} ended with exit code ${code}`)
}

/** What the store keeps of the answer above: it was committed before the last byte of the answer left. */
async function showUsageRow() {
  const { openDatabase } = await import('../dist/daemon/platform/db/database.js')
  const db = await openDatabase({ kind: 'sqlite', dataDir })
  const row = await db.selectFrom('usage_records').selectAll().executeTakeFirstOrThrow()
  await db.destroy()
  say(`\nThe usage row of that answer, from ${join(dataDir, 'aigw.db')}:`)
  for (const [name, value] of Object.entries(row)) if (value !== null) say(`  ${name.padEnd(20)} ${value}`)
}

function nextSteps(url) {
  say('\nHow to go on:')
  if (keep) {
    say(`  export AIGW_BASE_URL=${url} AIGW_API_KEY="$(cat '${dataDir}/admin.key')"`)
    say(`  node bin/aigw.js chat -m local/extract -i ${INDEX} "your question"`)
    say(`  kill ${daemon.pid}            stops the daemon; its log is ${logFile}`)
    say(`  rm -r '${directory}'   removes its data, once it has stopped`)
  } else {
    say('  npm run quickstart -- --keep        the same, and the daemon goes on running')
    say('  node bin/aigwd.js --help            a daemon of your own; see docs/configuration.md')
  }
  say('  OPENAI_API_KEY=… node bin/aigwd.js   offers openai/<model> beside local/extract')
}
