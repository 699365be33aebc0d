// Runs real clients from npm against the gateway: npm run clients. See clients/README.md.
import { fork, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { withSession } from '../bench/session.mjs'
import { modelOf, startGateway } from './harness/gateway.mjs'
import { startProvider } from './harness/provider.mjs'
import { problemOf, SCENARIOS } from './harness/scenarios.mjs'
import { asText, writeTable } from './harness/table.mjs'

const here = import.meta.dirname
const root = path.dirname(here)
const TIMEOUT_MS = 60_000
const LONG_TIMEOUT_MS = 180_000
const START_TIMEOUT_MS = 60_000

const { values: flags } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    scenario: { type: 'string', multiple: true },
    write: { type: 'boolean' },
    json: { type: 'boolean' },
    // Another model, such as one of another interface, which the gateway then translates.
    model: { type: 'string' },
    verbose: { type: 'boolean', short: 'v' },
    // For the tests: another build of the gateway, and another module that imports the packages.
    home: { type: 'string' },
    loader: { type: 'string' },
    jobs: { type: 'string', default: '2' },
  },
})

const say = (text) => process.stderr.write(`${text}\n`)

/** The Node of the clients: the one that clients/package.json pins, because many packages require Node 22. */
const node = flags.loader ? process.execPath : path.join(here, 'node_modules/.bin/node')

/** Installs the pinned packages of a folder if they are absent or older than the lock file. */
function installPackages(folder) {
  const marker = path.join(folder, 'node_modules/.package-lock.json')
  const lock = path.join(folder, 'package-lock.json')
  if (existsSync(marker) && statSync(marker).mtimeMs >= statSync(lock).mtimeMs) return true
  say(`Installing the packages of ${path.relative(root, folder)}/ …`)
  const args = ['ci', '--prefix', folder, '--no-audit', '--no-fund', '--loglevel', 'error']
  const { status } = spawnSync('npm', args, { cwd: folder, stdio: ['ignore', 2, 2] })
  return status === 0
}

/** Every file beside this one is a client. */
function clientFiles() {
  const ids = readdirSync(here)
    .filter((name) => name.endsWith('.mjs') && name !== 'run.mjs')
    .map((name) => name.slice(0, -'.mjs'.length))
    .sort()
  const wanted = flags.only?.flatMap((given) => given.split(','))
  const unknown = wanted?.find((id) => !ids.includes(id))
  if (unknown) throw new Error(`There is no client "${unknown}". The clients are: ${ids.join(', ')}.`)
  return wanted ?? ids
}

/** Starts the process of a client. */
async function openClient(id) {
  const args = [path.join(here, `${id}.mjs`), ...(flags.loader ? [path.resolve(flags.loader)] : [])]
  const child = fork(path.join(here, 'harness/child.mjs'), args, {
    execPath: node,
    execArgv: [],
    // The caller's keys and settings must not reach the clients.
    env: {
      PATH: `${path.dirname(node)}:${process.env.PATH}`,
      HOME: process.env.HOME,
      TMPDIR: process.env.TMPDIR ?? '/tmp',
      NO_COLOR: '1',
    },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (text) => {
      output = (output + text).slice(-20_000)
    })
  const ended = new Promise((_, reject) => {
    child.once('exit', (code, signal) =>
      reject(new Error(`the process of ${id} ended (${code ?? signal}):\n${output}`)),
    )
  })
  ended.catch(() => {})
  const next = (isWanted, timeoutMs) => {
    let timer
    const message = new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`${id} is silent for ${timeoutMs / 1000} s:\n${output}`)), timeoutMs)
      child.on('message', function listen(given) {
        if (!isWanted(given)) return
        child.off('message', listen)
        resolve(given)
      })
    })
    return Promise.race([message, ended]).finally(() => clearTimeout(timer))
  }
  const { client } = await next((message) => message.client, START_TIMEOUT_MS)
  return {
    ...client,
    id,
    output: () => output,
    async run(job) {
      const answer = next((message) => message.cell === job.cell, job.timeoutMs + 5_000)
      child.send(job)
      return (await answer).result
    },
    close: () => child.kill('SIGKILL'),
  }
}

/** Runs one scenario of a client against `target` and judges it. */
async function tryScenario({ client, scenario, provider, gateway, cell, direct }) {
  const key = direct ? { secret: 'sk-direct' } : await gateway.createKey(cell)
  const timeoutMs = scenario.isLong ? LONG_TIMEOUT_MS : TIMEOUT_MS
  const job = {
    scenario: scenario.id,
    cell,
    url: (direct ? provider : gateway).url,
    apiKey: key.secret,
    model: flags.model ?? modelOf(client.interface),
    timeoutMs,
  }
  const result = (await client.run(job)) ?? {}
  // The provider learns of a cancelled request a moment after the client.
  if (scenario.mayFail) await new Promise((resolve) => setTimeout(resolve, 150))
  const received = provider.received(cell)
  const receipts = direct ? undefined : await gateway.receipts(key.id, received.length)
  const problem = problemOf(scenario, { result, received, receipts, interface: client.interface })
  if (flags.verbose)
    say(
      JSON.stringify(
        { cell, result, received: received.slice(0, 3), receipts: receipts?.slice(0, 2), problem },
        undefined,
        1,
      ),
    )
  provider.forget(cell)
  return problem
}

let cells = 0
/** Fills one cell of the table. */
async function fillCell(parts) {
  const { client, scenario } = parts
  const entry = client.scenarios[scenario.id]
  if (entry === undefined) return { kind: 'no', why: 'not tested' }
  if (entry !== true) return { kind: 'no', why: entry.replace(/^no:\s*/, '') }
  const cell = `${client.id}-${cells++}`
  const problem = await tryScenario({ ...parts, cell })
  if (!problem) return { kind: 'ok' }
  const alone = await tryScenario({ ...parts, cell: `${cell}-direct`, direct: true })
  if (alone) return { kind: 'client', why: alone }
  return { kind: 'FAIL', why: problem }
}

async function runClient(id, parts) {
  let client
  try {
    client = await openClient(id)
  } catch (error) {
    say(`${id}: ${error.message}`)
    return { id, name: id, packages: {}, interface: '', cells: {}, broken: error.message }
  }
  const filled = {}
  try {
    for (const scenario of SCENARIOS) {
      if (flags.scenario && !flags.scenario.flatMap((given) => given.split(',')).includes(scenario.id)) continue
      const began = performance.now()
      const cell = await fillCell({ ...parts, client, scenario }).catch((error) => ({
        kind: 'FAIL',
        why: error.message,
      }))
      filled[scenario.id] = { ...cell, ms: Math.round(performance.now() - began) }
      if (cell.kind !== 'no')
        say(`${id} ${scenario.id}: ${cell.kind}${cell.why ? ` (${cell.why})` : ''} ${filled[scenario.id].ms} ms`)
    }
  } finally {
    client.close()
  }
  const { name, packages, interface: spoken } = client
  return { id, name, packages, interface: spoken, cells: filled }
}

async function main() {
  const ids = clientFiles()
  // promptfoo must be installed without its optional packages, and other clients need theirs.
  const folders = ids.some((id) => id.startsWith('promptfoo')) ? [here, path.join(here, 'promptfoo')] : [here]
  if (!flags.loader && !folders.every(installPackages)) {
    say('The packages of clients/ do not install, so no client was run.')
    process.exitCode = 3
    return
  }
  const rows = await withSession({}, async (session) => {
    const provider = await startProvider()
    try {
      const gateway = await startGateway(session, { providerUrl: provider.url, home: flags.home })
      const waiting = [...ids]
      const done = []
      const worker = async () => {
        for (let id = waiting.shift(); id; id = waiting.shift()) done.push(await runClient(id, { provider, gateway }))
      }
      await Promise.all(Array.from({ length: Number(flags.jobs) }, worker))
      return done.sort((a, b) => ids.indexOf(a.id) - ids.indexOf(b.id))
    } finally {
      await provider.close()
    }
  })
  if (flags.json) process.stdout.write(`${JSON.stringify(rows)}\n`)
  else process.stdout.write(`${asText(rows)}\n`)
  if (flags.write) writeTable(path.join(root, 'docs/clients.md'), rows)
  const failed = rows.some(
    ({ broken, cells: filled }) => broken || Object.values(filled).some(({ kind }) => kind === 'FAIL'),
  )
  if (failed) process.exitCode = 1
}

await main()
