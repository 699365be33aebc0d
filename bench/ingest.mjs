// Measures the speed and memory of indexing, and the latency of chats that run at the same time.
// Run: npm run bench -- ingest
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BenchError, buildProject, root } from './build.mjs'
import { spawnDaemon } from './candidates.mjs'
import { csvFile, pdfFile, textFile, zipBomb } from './ingest-files.mjs'
import { describeMachine, processMemoryMib } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

const FULL = { rounds: 3, windowSeconds: 15, chatsPerSecond: 60, small: 60, memoryUploads: 20 }
const QUICK = { rounds: 1, windowSeconds: 8, chatsPerSecond: 60, small: 20, memoryUploads: 4 }
const MB = 1_048_576
const WARM_UP_MS = 3_000

const FILES = {
  'text, 50 MB': { name: 'prose.txt', make: () => textFile(50 * MB - 10) },
  'table, 50 MB': { name: 'table.csv', make: () => csvFile(50 * MB - 10_000) },
  'PDF, 4,900 pages': { name: 'many.pdf', make: () => pdfFile(4_900) },
  'PDF, 10,000 pages (refused)': { name: 'toomany.pdf', make: () => pdfFile(10_000) },
  'zip bomb, 2 GB (refused)': { name: 'bomb.docx', make: () => zipBomb(2_000 * MB) },
}

function call(gateway, method, target, body) {
  return new Promise((resolve, reject) => {
    const request = http.request(`${gateway.url}${target}`, {
      method,
      agent: gateway.agent,
      headers: { authorization: `Bearer ${gateway.key}`, ...(body && { 'content-type': 'application/json' }) },
    })
    request.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part) => {
        text += part
      })
      response.once('end', () => resolve({ status: response.statusCode, text }))
    })
    request.once('error', reject).end(body && JSON.stringify(body))
  })
}

/** Sends chats at a fixed rate without waiting for earlier ones. Returns the latency of each chat in milliseconds. */
async function chatFor(gateway, { windowSeconds, chatsPerSecond }) {
  const times = []
  const running = []
  const ask = async (dueAt) => {
    const { status, text } = await call(gateway, 'POST', '/api/external/chat/completions', {
      model: 'local/extract',
      index: 'Zero-Knowledge',
      prompt: 'What can you do?',
    })
    if (status !== 200) throw new BenchError(`a chat failed with ${status}: ${text}`)
    times.push(performance.now() - dueAt)
  }
  const count = windowSeconds * chatsPerSecond
  const startedAt = performance.now()
  for (let at = 0; at < count; at++) {
    const dueAt = startedAt + (at * 1000) / chatsPerSecond
    const early = dueAt - performance.now()
    if (early > 0) await sleep(early)
    running.push(ask(dueAt))
  }
  await Promise.all(running)
  return times
}

const percentile = (values, share) => [...values].sort((a, b) => a - b)[Math.ceil(values.length * share) - 1]

/** Returns the event loop delay of the daemon since the previous call. */
async function loopDelay(gateway) {
  const changedAt = () => statSync(gateway.loopFile, { throwIfNoEntry: false })?.mtimeMs ?? 0
  const before = changedAt()
  process.kill(gateway.child.pid, 'SIGUSR2')
  while (changedAt() === before) await sleep(2)
  return JSON.parse(readFileSync(gateway.loopFile, 'utf8'))
}

/** The command that sets the lowest CPU priority. The gateway gives its reader processes the same priority. */
const LOWEST_PRIORITY = spawnSync('chrt', ['--version']).status === 0 ? ['chrt', '--idle', '0'] : ['nice', '-n', '19']
function atLowestPriority(argv) {
  const [command, ...options] = LOWEST_PRIORITY
  return spawn(command, [...options, process.execPath, ...argv], { stdio: ['ignore', 'pipe', 'inherit'] })
}

/** Starts an unrelated process that is always busy, like a process that reads files. */
function startBusyNeighbour() {
  const child = atLowestPriority(['-e', 'for (;;);'])
  const ended = new Promise((resolve) => child.once('close', () => resolve({ trainings: 0 })))
  return {
    stop() {
      child.kill('SIGKILL')
      return ended
    },
  }
}

function startUploads(gateway, file, uploads = Number.MAX_SAFE_INTEGER) {
  const script = path.join(root, 'bench', 'ingest-upload.mjs')
  // The client must not compete for CPU time, because in production it runs on another machine.
  const child = atLowestPriority([script, gateway.url, gateway.key, 'bench', file, String(uploads)])
  let output = ''
  child.stdout.on('data', (data) => {
    output += data
  })
  const ended = new Promise((resolve) => child.once('close', resolve))
  return {
    ended: () => ended.then(() => JSON.parse(output)),
    stop() {
      child.kill('SIGTERM')
      return this.ended()
    },
  }
}

async function measureChat(gateway, plan, files) {
  const loads = {
    'a busy process of the lowest priority': startBusyNeighbour,
    ...Object.fromEntries(Object.entries(files).map(([name, file]) => [name, () => startUploads(gateway, file)])),
  }
  const quiet = []
  const loaded = Object.fromEntries(Object.keys(loads).map((name) => [name, { times: [], loops: [], done: [] }]))
  const quietLoops = []
  for (let round = 0; round < plan.rounds; round++) {
    for (const [name, start] of Object.entries(loads)) {
      await loopDelay(gateway)
      quiet.push(...(await chatFor(gateway, plan)))
      quietLoops.push(await loopDelay(gateway))
      const load = start()
      await sleep(WARM_UP_MS)
      await loopDelay(gateway)
      loaded[name].times.push(...(await chatFor(gateway, plan)))
      loaded[name].loops.push(await loopDelay(gateway))
      loaded[name].done.push(await load.stop())
    }
  }
  return { quiet: { times: quiet, loops: quietLoops }, loaded }
}

/** Measures the training of documents that have one passage each. Each training request contains 100 documents. */
async function measureSmall(gateway, plan) {
  const speeds = []
  const prose = textFile(plan.small * 100 * 600).toString()
  for (let round = 0; round < plan.small; round++) {
    const form = new FormData()
    const texts = Array.from({ length: 100 }, (_, at) => ({
      name: `small-${round}-${at}`,
      content: prose.slice((round * 100 + at) * 600, (round * 100 + at + 1) * 600),
    }))
    form.append('text_inputs', JSON.stringify(texts))
    const startedAt = performance.now()
    const response = await fetch(`${gateway.url}/api/external/indexes/bench/train`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}` },
      body: form,
    })
    const { results } = await response.json()
    speeds.push((results.total_chunks * 1000) / (performance.now() - startedAt))
  }
  return speeds
}

/** Returns the process ids of the gateway's file readers. The list is empty if no file has been read for a while. */
function readersOf(pid) {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim()
  return children === '' ? [] : children.split(' ').map(Number)
}

/** Returns the memory of a process, or 0 if it has exited. */
function memoryOf(pid) {
  try {
    return processMemoryMib(pid)
  } catch {
    return { now: 0, peak: 0 }
  }
}

async function measureLarge(gateway, plan, file) {
  const memory = []
  let readerPeak = 0
  let done
  const uploads = startUploads(gateway, file, plan.memoryUploads)
  const ended = uploads.ended().then((result) => {
    done = result
  })
  while (done === undefined) {
    memory.push(processMemoryMib(gateway.child.pid).now)
    readerPeak = Math.max(readerPeak, ...readersOf(gateway.child.pid).map((pid) => memoryOf(pid).peak))
    await Promise.race([ended, sleep(1_000)])
  }
  return {
    ...done,
    bytes: plan.memoryUploads * statSync(file).size,
    memory,
    peak: processMemoryMib(gateway.child.pid).peak,
    readerPeak,
  }
}

function renderChat(chat, plan) {
  const base = percentile(chat.quiet.times, 0.99)
  const row = (name, { times, loops, done = [] }) => [
    name,
    figure(times.length),
    figure(percentile(times, 0.5), 1),
    figure(percentile(times, 0.99), 1),
    name === 'none' ? '-' : figure((percentile(times, 0.99) / base - 1) * 100),
    figure(Math.max(...times), 1),
    figure(Math.max(...loops.map(({ max }) => max)), 1),
    figure(
      done.reduce((sum, { trainings }) => sum + trainings, 0),
      0,
    ),
  ]
  return [
    `Chats while files are indexed: ${plan.chatsPerSecond} per second, ${plan.rounds} x ${plan.windowSeconds} s each, alternating`,
    '',
    table(
      ['concurrent load', 'chats', 'p50 ms', 'p99 ms', 'p99 +%', 'max ms', 'event loop max ms', 'trainings'],
      [row('none', chat.quiet), ...Object.entries(chat.loaded).map(([name, figures]) => row(name, figures))],
    ),
  ]
}

const renderSmall = (small) => [
  `Documents of one passage, 100 per training: ${figure(median(small))} passages/s (${figure(Math.min(...small))} to ${figure(Math.max(...small))})`,
]

function renderLarge(large) {
  const quarter = (at) =>
    median(large.memory.slice((at * large.memory.length) / 4, ((at + 1) * large.memory.length) / 4))
  return [
    `${figure(large.bytes / MB)} MB of text, 50 MB per training: ${figure(large.passages)} passages, ${figure(large.passages / large.seconds)}/s; ` +
      `memory by quarters ${[0, 1, 2, 3].map((at) => figure(quarter(at))).join(', ')} MiB, peak ${figure(large.peak)} MiB, ` +
      `of a reader process ${figure(large.readerPeak)} MiB`,
  ]
}

const PARTS = {
  small: { measure: measureSmall, render: renderSmall },
  chat: { measure: measureChat, render: renderChat },
  large: {
    measure: (gateway, plan, files) => measureLarge(gateway, plan, Object.values(files)[0]),
    render: renderLarge,
  },
}

/**
 * `npm run bench -- ingest`: prints the tables and returns all figures.
 * @param {{quick: boolean, rounds: number | undefined, dataDir: string | undefined, noBuild: boolean, postgres: string | undefined,
 *   part: string | undefined}} options
 */
export async function benchIngest({ quick, rounds, dataDir, noBuild, postgres, part }) {
  if (part !== undefined && !Object.hasOwn(PARTS, part)) {
    throw new BenchError(`--part must be one of ${Object.keys(PARTS).join(', ')}`)
  }
  const plan = { ...(quick ? QUICK : FULL), ...(rounds && { rounds }) }
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  const figures = await withSession({ dataDir }, async (session) => {
    const dir = path.join(session.dir, 'gateway')
    const files = Object.fromEntries(
      Object.entries(FILES).map(([kind, { name, make }]) => {
        const file = path.join(session.dir, name)
        writeFileSync(file, make())
        return [kind, file]
      }),
    )
    const loopFile = path.join(session.dir, 'loop.json')
    const nodeOptions = ['--import', path.join(root, 'bench', 'loop-delay.mjs')]
    const { child, key } = spawnDaemon(session, {
      dir,
      nodeOptions,
      databaseUrl: postgres,
      env: { BENCH_LOOP_DELAY: loopFile },
    })
    const { url } = await child.listening
    const gateway = { child, key, url, loopFile, agent: new http.Agent({ keepAlive: true }) }
    const created = await call(gateway, 'POST', '/api/external/indexes', { name: 'bench' })
    if (created.status !== 201) throw new BenchError(`the index was not created: ${created.text}`)
    const measured = {}
    for (const [name, { measure }] of Object.entries(PARTS)) {
      if (part === undefined || part === name) measured[name] = await measure(gateway, plan, files)
    }
    gateway.agent.destroy()
    return { machine, plan, ...measured }
  })
  console.log(machineLine({ ...machine, pinned: false }))
  for (const [name, { render }] of Object.entries(PARTS)) {
    if (figures[name] !== undefined) console.log(['', ...render(figures[name], plan)].join('\n'))
  }
  return figures
}
