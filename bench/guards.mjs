// What output guards cost a stream: CPU of the same streams with guards and without, taken in turns, and what the first
// token waits for.
import { readFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { performance } from 'node:perf_hooks'
import { BenchError, buildProject, root } from './build.mjs'
import { CPU, describeMachine, processCpuUs } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

const TOKENS = / ?\S{1,8}\n?|\s/g
const HALF_LINES = /.{1,48}/gs

const CASES = [
  { name: 'tokens, 20 ms apart', pattern: TOKENS, intervalMs: 20, streams: 50, streamChars: 2_000 },
  { name: 'tokens, 2 ms apart', pattern: TOKENS, intervalMs: 2, streams: 20, streamChars: 10_000 },
  { name: 'half lines, 20 ms apart', pattern: HALF_LINES, intervalMs: 20, streams: 50, streamChars: 8_000 },
]
const FULL_ROUNDS = 3
const QUICK_ROUNDS = 2
const PER_CHARS = 100_000
const FIRST_TOKENS = 2_000

// Prose, tables, addresses and code: what this project says of itself.
const DOCUMENTS = ['ARCHITECTURE.md', 'docs/webhooks.md', 'docs/operations.md', 'docs/knowledge.md', 'docs/cli.md']
const corpus = DOCUMENTS.map((name) => readFileSync(path.join(root, name), 'utf8'))
  .join('\n')
  .replace(/[ -]{2,}/g, ' ')

/** The text from somewhere on, at the beginning of a word, in pieces of words as those of models, or in longer pieces. */
function chunksOf(at, chars, pattern) {
  const begin = corpus.indexOf(' ', (at * 7_919) % (corpus.length - chars - 100)) + 1
  return corpus.slice(begin, begin + chars).match(pattern)
}

function startUpstream() {
  const shape = { chunks: () => [], intervalMs: 1 }
  let asked = 0
  const event = (delta, finish) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
  const server = http.createServer((request, response) => {
    request.resume()
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const chunks = shape.chunks(asked++)
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

/** Reads one answer to its end; undefined when it has none. */
function ask(url) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method: 'POST', agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (piece) => {
        text += piece
      })
      response.on('end', () => resolve(text.endsWith('data: [DONE]\n\n') ? text : undefined))
    })
    request.on('error', reject)
    request.end('go on')
  })
}

/** @returns CPU µs of the measured process for 100,000 characters */
async function measure({ child, url, upstream }, kase, way) {
  upstream.shape.intervalMs = kase.intervalMs
  upstream.shape.chunks = (at) => chunksOf(at, kase.streamChars, kase.pattern)
  const before = processCpuUs(child.pid)
  const answers = await Promise.all(Array.from({ length: kase.streams }, () => ask(`${url}/${way}`)))
  const cpuUs = processCpuUs(child.pid) - before
  if (answers.includes(undefined)) throw new BenchError(`an answer of ${way} broke off. It said:\n${child.output()}`)
  return (cpuUs * PER_CHARS) / (kase.streams * kase.streamChars)
}

/** What the first token of an answer waits for: work of the guards, and tokens that had to come first. */
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
    // The first ones are those of the JIT.
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

export async function benchGuards({ rounds, quick, noBuild, dataDir }) {
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  const runs = []
  await withSession({ dataDir }, async (session) => {
    const upstream = await startUpstream()
    try {
      const program = path.join(root, 'bench', 'guarded-stream.mjs')
      const argv = [process.execPath, program, upstream.url]
      const child = session.start({ name: 'guarded stream', argv, cpu: CPU.measured })
      const bench = { child, upstream, url: (await child.listening).url }
      for (const way of ['plain', 'guarded']) await measure(bench, CASES[1], way)
      for (let round = 0; round < (rounds ?? (quick ? QUICK_ROUNDS : FULL_ROUNDS)); round++) {
        for (const kase of CASES) {
          for (const way of round % 2 ? ['guarded', 'plain'] : ['plain', 'guarded']) {
            const cpuUs = await measure(bench, kase, way)
            console.error(`${round + 1} ${kase.name.padEnd(24)} ${way.padEnd(8)} ${figure(cpuUs)} µs CPU`)
            runs.push({ case: kase.name, way, cpuUs })
          }
        }
      }
    } finally {
      upstream.server.close()
    }
  })
  const first = await firstTokens()
  const cpuOf = (name, way) =>
    median(runs.filter((run) => run.case === name && run.way === way).map(({ cpuUs }) => cpuUs))
  const rows = CASES.map(({ name }) => {
    const [plain, guarded] = [cpuOf(name, 'plain'), cpuOf(name, 'guarded')]
    return [name, figure(plain), figure(guarded), figure(guarded / plain, 2)]
  })
  console.log(`${machineLine(machine)}\n`)
  console.log(`${table(['stream', 'CPU µs/100 KB, plain', 'guarded', 'ratio'], rows)}\n`)
  console.log(
    `The first token: ${figure(first.workMsP50, 3)} ms of work at p50, ${figure(first.workMsP99, 3)} ms at p99; ` +
      `it waits for ${first.tokensP50} further tokens at p50, ${first.tokensP99} at p99.`,
  )
  return { machine, runs, first }
}
