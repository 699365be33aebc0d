// Measures how long guards block the event loop: the longest turn, in CPU time on the daemon's main thread. It sends
// the slowest known texts to each API surface, and also returns these texts as the answers of a model. Run: npm run
// bench -- guards
import { existsSync, readFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { DLP_WORST, PII_WORST } from '../eval/worst-texts.mjs'
import { BenchError, root } from './build.mjs'
import { spawnDaemon } from './candidates.mjs'
import { CPU } from './machine.mjs'
import { figure, table } from './tables.mjs'

/** Sizes just below two limits: 256 KB for all message texts together, and 1 MB for a body. */
const TEXT_BYTES = 262_000
const BODY_BYTES = 1_040_000
const SHOWN = 5
const PLAIN = 'The quick brown fox jumps over the lazy dog and keeps running through the field. '

/** A policy with every guard that inspects text. */
const EVERYTHING = {
  name: 'Everything',
  description: 'Every guard inspects every text.',
  policy: {
    pii: { enabled: true, entities: 'all', action: 'mask' },
    dlp: { enabled: true, action: 'mask' },
    canary: { enabled: true, action: 'block' },
    promptShield: { required: true },
  },
}

/** Repeats `unit` until one more repetition would make the JSON of the text longer than `bytes` bytes. */
function filled(unit, bytes) {
  const unitBytes = Math.max(Buffer.byteLength(unit), Buffer.byteLength(JSON.stringify(unit)) - 2)
  return unit.repeat(Math.floor(bytes / unitBytes))
}

const model = 'mock/mock-model'
const chat = (text) => ({ model, index: 'Zero-Knowledge', prompt: text })
const messages = (texts) => texts.map((content) => ({ role: 'user', content }))

const toTool = (description, at) => {
  const parameters = { type: 'object', properties: {} }
  return { type: 'function', function: { name: `tool_${at}`, description, parameters } }
}

/** The API surfaces that receive or return text, with a request for each. */
const SURFACES = [
  { name: '/chat/completions', path: '/chat/completions', bodyOf: ([text]) => chat(text), bytes: TEXT_BYTES },
  {
    name: '/v1/chat/completions',
    path: '/v1/chat/completions',
    bodyOf: (texts) => ({ model, messages: messages(texts) }),
    bytes: TEXT_BYTES,
  },
  {
    name: '/v1/chat/completions, 1 MB',
    path: '/v1/chat/completions',
    bodyOf: ([text, ...descriptions]) => ({ model, messages: messages([text]), tools: descriptions.map(toTool) }),
    bytes: BODY_BYTES,
  },
  {
    name: '/v1/messages',
    path: '/v1/messages',
    bodyOf: (texts) => ({ model, max_tokens: 100, messages: messages(texts) }),
    bytes: TEXT_BYTES,
  },
  {
    name: '/v1/embeddings',
    path: '/v1/embeddings',
    bodyOf: (texts) => ({ model, input: texts }),
    bytes: TEXT_BYTES,
  },
  { name: 'answer, whole', path: '/chat/completions', bodyOf: () => chat('go on'), bytes: TEXT_BYTES, isAnswer: true },
  {
    name: 'answer, one chunk of a stream',
    path: '/chat/completions',
    bodyOf: () => ({ ...chat('go on'), stream: true }),
    bytes: TEXT_BYTES,
    isAnswer: true,
  },
]

const USAGE = { prompt_tokens: 60_000, completion_tokens: 60_000, total_tokens: 120_000 }

/** Starts an upstream that responds immediately with `shape.answer`. */
function startUpstream() {
  const shape = { answer: 'ok' }
  const server = http.createServer(async (request, response) => {
    let body = ''
    for await (const piece of request.setEncoding('utf8')) body += piece
    const choice = { index: 0, finish_reason: 'stop' }
    if (request.url.endsWith('/embeddings')) {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ object: 'list', data: [{ index: 0, embedding: [0.5] }], usage: USAGE }))
    } else if (body.includes('"stream":true')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const chunk = JSON.stringify({ choices: [{ ...choice, delta: { content: shape.answer } }], usage: USAGE })
      response.end(`data: ${chunk}\n\ndata: [DONE]\n\n`)
    } else {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(
        JSON.stringify({
          choices: [{ ...choice, message: { role: 'assistant', content: shape.answer } }],
          usage: USAGE,
        }),
      )
    }
  })
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve({ server, shape, url: `http://127.0.0.1:${server.address().port}` }))
  })
}

async function startGateway(session, upstream) {
  const turnsFile = path.join(session.dir, 'turns.json')
  const { child, key } = spawnDaemon(session, {
    dir: path.join(session.dir, 'turns'),
    nodeOptions: ['--import', path.join(root, 'bench', 'loop-turns.mjs')],
    mockUrl: upstream.url,
    cpu: CPU.measured,
    env: { BENCH_LOOP_TURNS: turnsFile },
  })
  const { url } = await child.listening
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const post = async (target, body) => {
    const response = await fetch(`${url}/api/external${target}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    return { status: response.status, text: await response.text() }
  }
  for (const [target, body] of [
    ['/smltp-policies', EVERYTHING],
    ['/smltp-policies/everything/activate', {}],
  ]) {
    const { status, text } = await post(target, body)
    if (status >= 300) throw new BenchError(`the policy was not activated: ${text}`)
  }
  return { child, turnsFile, post }
}

/** Returns the longest turn since the previous call. */
async function longestTurn({ child, turnsFile }) {
  const read = () => (existsSync(turnsFile) ? JSON.parse(readFileSync(turnsFile, 'utf8')) : { readings: 0, maxMs: 0 })
  const { readings } = read()
  process.kill(child.pid, 'SIGUSR2')
  while (read().readings === readings) await sleep(2)
  return read().maxMs
}

/**
 * Number of texts sent. Each text starts with this number and is therefore unique. Otherwise the cached result of an
 * earlier clean text would be used.
 */
let measured = 0

async function measure(gateway, upstream, surface, unit) {
  const textOf = (bytes) => `${(measured++).toString(36)} ${filled(unit, bytes - 8)}`
  // The messages of one request share a limit: the maximum size of one text. Tool descriptions fill the rest of a 1 MB
  // body.
  const texts = surface.bytes === TEXT_BYTES ? [textOf(TEXT_BYTES)] : [1, 2, 3, 4].map(() => textOf(BODY_BYTES / 4))
  upstream.shape.answer = surface.isAnswer ? texts[0] : 'ok'
  await longestTurn(gateway)
  const { status, text: answer } = await gateway.post(surface.path, surface.bodyOf(texts))
  if (status >= 500 || status === 400 || status === 413) {
    throw new BenchError(`${surface.name} responded with ${status} to ${JSON.stringify(unit)}: ${answer.slice(0, 300)}`)
  }
  return longestTurn(gateway)
}

/**
 * Measures every surface with every text, and returns the longest turn of each pair.
 * @param {{ quick: boolean }} plan
 * @returns {Promise<{ surface: string, unit: string, ms: number }[]>}
 */
export async function benchTurns(session, { quick }) {
  const units = [...new Set([...PII_WORST, ...DLP_WORST])].filter((_, at) => !quick || at % 12 === 0)
  const upstream = await startUpstream()
  const runs = []
  try {
    const gateway = await startGateway(session, upstream)
    // Warm-up: V8 compiles the functions that inspect text.
    for (const surface of SURFACES) await measure(gateway, upstream, surface, PII_WORST[2])
    for (const surface of SURFACES) {
      for (const unit of [PLAIN, ...units]) {
        const ms = await measure(gateway, upstream, surface, unit)
        runs.push({ surface: surface.name, unit, ms })
      }
    }
  } finally {
    upstream.server.close()
  }
  return runs
}

export function printTurns(runs) {
  const rows = SURFACES.map(({ name }) => {
    const own = runs.filter(({ surface }) => surface === name).sort((one, other) => other.ms - one.ms)
    const plain = own.find(({ unit }) => unit === PLAIN)
    const worst = own.slice(0, SHOWN).map(({ unit, ms }) => `${JSON.stringify(unit)} ${figure(ms)}`)
    return [name, figure(plain?.ms ?? 0), worst.join(', ')]
  })
  console.log(`${table(['longest turn, ms', 'prose', 'worst texts'], rows)}\n`)
}
