// Measures output guards. It alternates the same streams with and without guards to compare their CPU. For each policy,
// it also measures the delay of the first token and the number of pieces in which prose arrives. Run: npm run bench --
// guards
import { readFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { performance } from 'node:perf_hooks'
import { BenchError, buildProject, root } from './build.mjs'
import { spawnDaemon } from './candidates.mjs'
import { benchTurns, printTurns } from './guard-turns.mjs'
import { CPU, describeMachine, processCpuUs } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

const TOKENS = / ?\S{1,8}\n?|\s/g
const HALF_LINES = /.{1,48}/gs

const ANSWER_CHARS = 100_000
const STREAMS = 10
const CASES = [
  { name: 'tokens, 1 ms apart', pattern: TOKENS, intervalMs: 1 },
  { name: 'half lines, 4 ms apart', pattern: HALF_LINES, intervalMs: 4 },
]
const FULL_ROUNDS = 3
const QUICK_ROUNDS = 2
const WARM_UP_ROUNDS = 2
const FIRST_TOKENS = 2_000
/** Policies under which prose is streamed. `public` inspects nothing. `gdpr` needs a provider in Europe. */
const LIVE_POLICIES = ['public', 'internal-strict', 'confidential', 'hipaa', 'pci-dss', 'with-source-code']
/** A short answer of prose, as a user reads it: one word every 25 ms, the speed of many models. */
const LIVE_INTERVAL_MS = 25
const LIVE_WORDS = 70
/** A text that has no line breaks, personal data or secrets. */
const PROSE =
  'the tide went out slowly and left the boats lying on their sides while we sat on the wall and talked about what to do ' +
  'with the rest of the day, since nobody wanted to go back before it was dark and there was still bread and cheese to eat, '

// Prose, tables, addresses and code from this project's documentation.
const DOCUMENTS = ['webhooks', 'operations', 'knowledge', 'cli', 'configuration', 'benchmarks', 'billing', 'access']
const corpus = DOCUMENTS.map((name) => readFileSync(path.join(root, 'docs', `${name}.md`), 'utf8'))
  .join('\n')
  .replace(/[ -]{2,}/g, ' ')

/**
 * Cuts `chars` characters of the corpus into chunks that match `pattern`. `at` selects the position. The position is
 * always the start of a word.
 */
function chunksOf(at, chars, pattern) {
  const begin = corpus.indexOf(' ', (at * 7_919) % (corpus.length - chars - 100)) + 1
  return corpus.slice(begin, begin + chars).match(pattern)
}

function startUpstream() {
  const shape = { chunks: () => [], intervalMs: 1 }
  let requestCount = 0
  const event = (delta, finish) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
  const server = http.createServer((request, response) => {
    request.resume()
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const chunks = shape.chunks(requestCount++)
    let sent = 0
    const timer = setInterval(() => {
      const content = chunks[sent++]
      if (content !== undefined) {
        response.write(event({ content }, null))
        return
      }
      clearInterval(timer)
      response.end(`${event({}, 'stop')}data: [DONE]\n\n`)
    }, shape.intervalMs)
  })
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve({ server, shape, url: `http://127.0.0.1:${server.address().port}` }))
  })
}

/**
 * Sends one request. Resolves to the delay of its first text, the number of pieces and the longest gap between two
 * pieces.
 */
function watch({ url, headers, body }) {
  return new Promise((resolve, reject) => {
    const beganAt = performance.now()
    const request = http.request(url, { method: 'POST', agent: false, headers }, (response) => {
      const times = []
      let rest = ''
      response.setEncoding('utf8')
      response.on('data', (piece) => {
        const events = (rest + piece).split('\n\n')
        rest = events.pop()
        for (const event of events) if (/"content":"[^"]/.test(event)) times.push(performance.now())
      })
      response.on('end', () => {
        const gaps = times.slice(1).map((time, at) => time - times[at])
        resolve({ firstMs: times[0] - beganAt, pieces: times.length, longestGapMs: Math.max(...gaps) })
      })
    })
    request.on('error', reject)
    request.end(body)
  })
}

/** Sends one request and reads the whole stream. Returns undefined if the stream is truncated. */
function ask({ url, headers, body }) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method: 'POST', agent: false, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (piece) => {
        text += piece
      })
      response.on('end', () => resolve(text.endsWith('data: [DONE]\n\n') ? text : undefined))
    })
    request.on('error', reject)
    request.end(body)
  })
}

/** A policy that masks personal data and secrets, and blocks canaries. */
const MASKING = {
  name: 'Masking',
  description: 'Masks personal data and secrets.',
  policy: {
    pii: { enabled: true, action: 'mask' },
    dlp: { enabled: true, action: 'mask' },
    canary: { enabled: true, action: 'block' },
  },
}

/** A policy that masks secrets and source code. */
const WITH_SOURCE_CODE = {
  name: 'With source code',
  description: 'Masks secrets and source code.',
  policy: { dlp: { enabled: true, rules: 'all', action: 'mask' } },
}

/** Starts the real daemon, and builds requests with and without guards. */
async function startGateway(session, upstream) {
  const dir = path.join(session.dir, 'gateway')
  const { child, key } = spawnDaemon(session, { dir, mockUrl: upstream.url, cpu: CPU.measured })
  const { url } = await child.listening
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const api = `${url}/api/external`
  const post = async (path, body = {}) => {
    const response = await fetch(`${api}/smltp-policies${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    if (!response.ok) throw new BenchError(`the policy was not activated: ${await response.text()}`)
  }
  await post('', MASKING)
  await post('', WITH_SOURCE_CODE)
  await post('/masking/activate')
  const question = {
    model: 'mock/mock-model',
    index: 'Zero-Knowledge',
    prompt: 'go on',
    stream: true,
    max_tokens: 4000,
  }
  const requestUnder = (policy) => ({
    url: `${api}/chat/completions`,
    headers,
    body: JSON.stringify({ ...question, ...policy }),
  })
  // The key has the default rights: it can use the active policy, or select `public`, which inspects nothing.
  return {
    child,
    post,
    requestUnder,
    requests: { plain: requestUnder({ smltp_policy: 'public' }), guarded: requestUnder({}) },
  }
}

/** Streams the same prose under each policy. The first run warms up the JIT and is dropped. */
async function measureLive({ post, requestUnder }, upstream) {
  const words = PROSE.match(/\S+\s*/g)
  const chunks = Array.from({ length: LIVE_WORDS }, (_, at) => words[at % words.length])
  upstream.shape.intervalMs = LIVE_INTERVAL_MS
  upstream.shape.chunks = () => chunks
  const seen = []
  for (const policy of [LIVE_POLICIES[1], ...LIVE_POLICIES]) {
    // Activates each policy, because the key is allowed to use only the active policy and `public`.
    await post(`/${policy}/activate`)
    const live = await watch(requestUnder({}))
    if (live.pieces === 0) throw new BenchError(`no text arrived under ${policy}`)
    seen.push({ policy, ...live })
  }
  return seen.slice(1)
}

function printLive(live) {
  console.log(`\nStream of prose, ${LIVE_WORDS} words, one every ${LIVE_INTERVAL_MS} ms:\n`)
  const rows = live.map(({ policy, firstMs, pieces, longestGapMs }) => {
    return [policy, figure(firstMs), `${pieces}`, figure(longestGapMs)]
  })
  console.log(`${table(['policy', 'first text, ms', 'pieces', 'longest gap, ms'], rows)}\n`)
}

/** @returns CPU µs of the gateway per answer of 100,000 characters */
async function measure({ child, requests }, upstream, kase, way) {
  upstream.shape.intervalMs = kase.intervalMs
  upstream.shape.chunks = (at) => chunksOf(at, ANSWER_CHARS, kase.pattern)
  const before = processCpuUs(child.pid)
  const answers = await Promise.all(Array.from({ length: STREAMS }, () => ask(requests[way])))
  const cpuUs = processCpuUs(child.pid) - before
  if (answers.includes(undefined))
    throw new BenchError(`a ${way} stream was truncated. Output of the gateway:\n${child.output()}`)
  return cpuUs / STREAMS
}

/**
 * Measures the two delays before the first token: the CPU time of the guards, and the wait for the later tokens that
 * the guards need.
 */
async function firstTokens() {
  const { createGuards } = await import('./guard-sets.mjs')
  const newGuard = createGuards({ monotonic: () => performance.now() })
  const works = []
  const tokens = []
  for (let at = 0; at < 2 * FIRST_TOKENS; at++) {
    const guard = newGuard()
    const chunks = chunksOf(at, 2_000, TOKENS)
    let workMs = 0
    let waited = -1
    for (let left = []; left.length === 0; waited++) {
      const beganAt = performance.now()
      left = guard.pass([{ type: 'text', text: chunks[waited + 1] }])
      workMs += performance.now() - beganAt
    }
    // The first half warms up the JIT.
    if (at < FIRST_TOKENS) continue
    works.push(workMs)
    tokens.push(waited)
  }
  const at = (values, share) => values.toSorted((a, b) => a - b)[Math.floor(values.length * share)]
  return {
    workMsP50: at(works, 0.5),
    workMsP99: at(works, 0.99),
    tokensP50: at(tokens, 0.5),
    tokensP99: at(tokens, 0.99),
  }
}

export async function benchGuards({ rounds, quick, noBuild, dataDir, part }) {
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  if (part !== undefined && part !== 'live') throw new BenchError(`--part must be live, not ${part}`)
  const turns = part ? undefined : await withSession({ dataDir }, (session) => benchTurns(session, { quick }))
  const runs = []
  let live = []
  await withSession({ dataDir }, async (session) => {
    const upstream = await startUpstream()
    try {
      const gateway = await startGateway(session, upstream)
      // Warm-up: V8 compiles on other threads for several seconds, and this counts as CPU time.
      for (let round = 0; !part && round < WARM_UP_ROUNDS; round++) {
        for (const kase of CASES) for (const way of ['plain', 'guarded']) await measure(gateway, upstream, kase, way)
      }
      for (let round = 0; !part && round < (rounds ?? (quick ? QUICK_ROUNDS : FULL_ROUNDS)); round++) {
        for (const kase of CASES) {
          for (const way of round % 2 ? ['guarded', 'plain'] : ['plain', 'guarded']) {
            const cpuUs = await measure(gateway, upstream, kase, way)
            console.error(`${round + 1} ${kase.name.padEnd(24)} ${way.padEnd(8)} ${figure(cpuUs)} µs CPU`)
            runs.push({ case: kase.name, way, cpuUs })
          }
        }
      }
      live = await measureLive(gateway, upstream)
    } finally {
      upstream.server.close()
    }
  })
  if (part) {
    console.log(`${machineLine(machine)}\n`)
    printLive(live)
    return { machine, live }
  }
  const first = await firstTokens()
  const cpuOf = (name, way) =>
    median(runs.filter((run) => run.case === name && run.way === way).map(({ cpuUs }) => cpuUs))
  const rows = CASES.map(({ name }) => {
    const [plain, guarded] = [cpuOf(name, 'plain'), cpuOf(name, 'guarded')]
    return [name, figure(plain), figure(guarded), figure(guarded / plain, 2)]
  })
  console.log(`${machineLine(machine)}\n`)
  console.log(`${table(['answer of 100 KB', 'CPU µs, no guards', 'masking', 'ratio'], rows)}\n`)
  console.log(
    `Delay of the first token: ${figure(first.workMsP50, 3)} ms of work at p50, ${figure(first.workMsP99, 3)} ms at p99; ` +
      `further tokens that must arrive first: ${first.tokensP50} at p50, ${first.tokensP99} at p99.`,
  )
  printLive(live)
  printTurns(turns)
  return { machine, runs, first, live, turns }
}
