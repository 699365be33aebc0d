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
// An agent takes 300 turns in 60 s, and in three times as long on a busy machine.
const LONG_TIMEOUT_MS = 300_000
const START_TIMEOUT_MS = 60_000
const INSTALL_TIMEOUT_MS = 180_000
/** The exit code if the packages cannot be installed. */
const NOT_INSTALLED = 3

const { values: flags } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    scenario: { type: 'string', multiple: true },
    write: { type: 'boolean' },
    json: { type: 'boolean' },
    // Seconds after which no further scenario starts.
    within: { type: 'string' },
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
  // Not `npm ci`: it fails if a registry lacks an optional package of another platform.
  const args = ['install', '--no-save', '--prefix', folder, '--no-audit', '--no-fund', '--loglevel', 'error']
  const { status } = spawnSync('npm', args, { cwd: folder, stdio: ['ignore', 2, 2], timeout: INSTALL_TIMEOUT_MS })
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

let cellCount = 0
/** Fills one cell of the table. */
async function fillCell(parts) {
  const { client, scenario } = parts
  const entry = client.scenarios[scenario.id]
  if (entry === undefined) return { kind: 'no', why: 'not tested' }
  if (entry !== true) return { kind: 'no', why: entry.replace(/^no:\s*/, '') }
  const cell = `${client.id}-${cellCount++}`
  const problem = await tryScenario({ ...parts, cell })
  if (!problem) return { kind: 'ok' }
  const alone = await tryScenario({ ...parts, cell: `${cell}-direct`, direct: true })
  if (alone) return { kind: 'client', why: alone }
  return { kind: 'FAIL', why: problem }
}

/** Runs some scenarios of a client in one process. */
async function runClient({ id, scenarios }, parts) {
  let client
  try {
    client = await openClient(id)
  } catch (error) {
    say(error.message)
    return { id, name: id, packages: {}, interface: '', cells: {}, broken: error.message }
  }
  const cells = {}
  try {
    for (const scenario of scenarios) {
      if (parts.isOver()) break
      const began = performance.now()
      const cell = await fillCell({ ...parts, client, scenario }).catch(({ message }) => ({
        kind: 'FAIL',
        why: message,
      }))
      cells[scenario.id] = { ...cell, ms: Math.round(performance.now() - began) }
      if (cell.kind === 'no') continue
      say(`${id} ${scenario.id}: ${cell.kind}${cell.why ? ` (${cell.why})` : ''} ${cells[scenario.id].ms} ms`)
    }
  } finally {
    client.close()
  }
  const { name, packages, interface: spoken } = client
  return { id, name, packages, interface: spoken, cells }
}

/** The scenarios that the flags choose. The long ones are apart, because they run last. */
function chosenScenarios() {
  const wanted = flags.scenario?.flatMap((given) => given.split(','))
  const unknown = wanted?.find((id) => !SCENARIOS.some((scenario) => scenario.id === id))
  if (unknown)
    throw new Error(
      `There is no scenario "${unknown}". The scenarios are: ${SCENARIOS.map(({ id }) => id).join(', ')}.`,
    )
  const chosen = SCENARIOS.filter(({ id }) => wanted?.includes(id) ?? true)
  return [chosen.filter(({ isLong }) => !isLong), chosen.filter(({ isLong }) => isLong)]
}

/** Runs all jobs and joins the cells of each client. */
async function runAll(ids, parts) {
  const waiting = chosenScenarios().flatMap((scenarios) =>
    scenarios.length > 0 ? ids.map((id) => ({ id, scenarios })) : [],
  )
  const rows = new Map()
  const worker = async () => {
    for (let job = waiting.shift(); job && !parts.isOver(); job = waiting.shift()) {
      if (rows.get(job.id)?.broken) continue
      const row = await runClient(job, parts)
      rows.set(row.id, { ...row, cells: { ...rows.get(row.id)?.cells, ...row.cells } })
    }
  }
  await Promise.all(Array.from({ length: Number(flags.jobs) }, worker))
  return ids.flatMap((id) => rows.get(id) ?? [])
}

/** The clients whose packages are installed. */
function installedClients() {
  const ids = clientFiles()
  if (flags.loader) return ids
  if (!installPackages(here)) return []
  // promptfoo must be installed without its optional packages, and other clients need theirs.
  const isPromptfoo = (id) => id.startsWith('promptfoo')
  if (!ids.some(isPromptfoo) || installPackages(path.join(here, 'promptfoo'))) return ids
  say('promptfoo cannot be installed, so it is not run.')
  return ids.filter((id) => !isPromptfoo(id))
}

async function main() {
  if (flags.write && (flags.only || flags.scenario))
    throw new Error('--write needs a run of all clients and scenarios.')
  const ids = installedClients()
  if (ids.length === 0) {
    say('The packages of clients/ cannot be installed, so no client was run.')
    process.exitCode = NOT_INSTALLED
    return
  }
  const deadline = Date.now() + (flags.within ? Number(flags.within) * 1000 : Number.POSITIVE_INFINITY)
  const rows = await withSession({}, async (session) => {
    const provider = await startProvider()
    try {
      const gateway = await startGateway(session, { providerUrl: provider.url, home: flags.home })
      return await runAll(ids, { provider, gateway, isOver: () => Date.now() > deadline })
    } finally {
      await provider.close()
    }
  })
  process.stdout.write(`${flags.json ? JSON.stringify(rows) : asText(rows)}\n`)
  if (Date.now() > deadline) say(`The time is over after ${flags.within} s. Cells that are missing above were not run.`)
  if (flags.write) writeTable(path.join(root, 'docs/clients.md'), rows)
  const isFailed = ({ broken, cells }) => broken || Object.values(cells).some(({ kind }) => kind === 'FAIL')
  if (rows.some(isFailed)) process.exitCode = 1
}

await main()
