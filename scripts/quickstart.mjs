// From nothing to an answered, billed question: a daemon on a scratch directory, an index of this repository's own
// documents, one streamed chat. Leaves nothing behind unless --keep is given.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const INDEX = 'handbook'
const QUESTION = 'When does the last byte of an answer leave the gateway?'
const keep = process.argv.includes('--keep')
const root = fileURLToPath(new URL('..', import.meta.url))
const bin = (name) => join(root, 'bin', name)
const say = (text = '') => process.stdout.write(`${text}\n`)

if (!existsSync(join(root, 'dist'))) {
  say('The project is not built yet; run: npm ci')
  process.exit(1)
}

const dataDir = await mkdtemp(join(tmpdir(), 'aigw-quickstart-'))
const daemon = spawn(process.execPath, [bin('aigwd.js'), '--data-dir', dataDir, '--listen', '127.0.0.1:0'], {
  stdio: ['ignore', 'pipe', 'inherit'],
  detached: keep,
})
const daemonGone = once(daemon, 'exit')
let failed = false
process.once('SIGINT', () => {
  failed = true
  daemon.kill('SIGTERM')
})

try {
  const url = await listening()
  const key = (await readFile(join(dataDir, 'admin.key'), 'utf8')).trim()
  // The quick start must not read or write the profiles of whoever runs it.
  const env = { ...process.env, AIGW_BASE_URL: url, AIGW_API_KEY: key, XDG_CONFIG_HOME: join(dataDir, 'cli') }
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
    daemon.stdout.destroy()
    daemon.unref()
  } else {
    daemon.kill('SIGTERM')
    await daemonGone
    await rm(dataDir, { recursive: true, force: true })
  }
}
process.exitCode = failed ? 1 : 0

async function listening() {
  for await (const line of createInterface({ input: daemon.stdout })) {
    const entry = line.startsWith('{') ? JSON.parse(line) : {}
    if (entry.msg !== 'listening') continue
    daemon.stdout.resume()
    return entry.url
  }
  throw new Error('the daemon ended before it listened')
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
  const { openDatabase } = await import('../dist/daemon/db/database.js')
  const db = await openDatabase({ kind: 'sqlite', dataDir })
  const row = await db.selectFrom('usage_records').selectAll().executeTakeFirstOrThrow()
  await db.destroy()
  say(`\nThe usage row of that answer, from ${join(dataDir, 'aigw.db')}:`)
  for (const [name, value] of Object.entries(row)) if (value !== null) say(`  ${name.padEnd(20)} ${value}`)
}

function nextSteps(url) {
  say('\nHow to go on:')
  if (keep) {
    say(`  export AIGW_BASE_URL=${url} AIGW_API_KEY=$(cat ${dataDir}/admin.key)`)
    say(`  node bin/aigw.js chat -m local/extract -i ${INDEX} "your question"`)
    say(`  kill ${daemon.pid}; rm -r ${dataDir}        stops the daemon and removes its data`)
  } else {
    say('  npm run quickstart -- --keep        the same, and the daemon goes on running')
    say('  node bin/aigwd.js --help            a daemon of your own; see docs/configuration.md')
  }
  say('  OPENAI_API_KEY=… node bin/aigwd.js   offers openai/<model> beside local/extract')
}
