// Measures how long expensive requests and answers block the event loop. Each case reports three figures: the longest
// turn of the daemon's main thread in CPU time, the event loop delay, and the latency of `/livez` during the case.
// Run: npm run bench -- stalls
import { existsSync, readFileSync, rmSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BenchError, buildProject, root } from './build.mjs'
import { spawnDaemon } from './candidates.mjs'
import { textFile } from './ingest-files.mjs'
import { CPU, describeMachine } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, table } from './tables.mjs'

const FULL_ROUNDS = 5
const QUICK_ROUNDS = 2
const PING_PAUSE_MS = 2
const VECTORS = { count: 2_048, dimensions: 1_024 }
const BODY_BYTES = 31_000_000
const TOOLS = 10_000
const ONE_BYTE_CHUNKS_CHARS = 200_000
const INFORMATIONAL_HEADS = 20_000
const INDEX = 'stalls'
const INDEXED_PASSAGES = 50_000
const TRAINING_BYTES = 10_000_000

const model = 'mock/mock-model'
const question = [{ role: 'user', content: 'Hello' }]
const prose = 'The quick brown fox jumps over the lazy dog. '
const cyrillic = 'Съешь же ещё этих мягких французских булок, да выпей чаю. '
const vector = Float32Array.from({ length: VECTORS.dimensions }, (_, at) => Math.sin(at + 1))
const base64 = Buffer.from(vector.buffer).toString('base64')
const numbers = Array.from(vector, (value) => Number(value.toFixed(5)))
const texts = Array.from({ length: VECTORS.count }, (_, at) => `text ${at}`)
const USAGE = { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 }

const embeddings = (embedding) =>
  JSON.stringify({ data: texts.map((_, index) => ({ object: 'embedding', index, embedding })), usage: USAGE })
const answerOf = (content) =>
  JSON.stringify({
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content } }],
    usage: USAGE,
  })
const answer = answerOf('ok')
const response = (type, body) =>
  Buffer.from(
    `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  )

/** One HTTP chunk per byte. */
function oneByteChunks() {
  const delta = { choices: [{ index: 0, finish_reason: null, delta: { content: prose } }] }
  const event = `data: ${JSON.stringify(delta)}\n\n`
  const end = { choices: [{ index: 0, finish_reason: 'stop', delta: {} }], usage: USAGE }
  const body = `${event.repeat(ONE_BYTE_CHUNKS_CHARS / event.length)}data: ${JSON.stringify(end)}\n\ndata: [DONE]\n\n`
  const chunks = Array.from(body, (byte) => `1\r\n${byte}\r\n`).join('')
  const head =
    'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n'
  return Buffer.from(`${head}${chunks}0\r\n\r\n`)
}

const CASES = [
  {
    name: 'embeddings, base64 to base64',
    path: '/v1/embeddings',
    body: { model, input: texts, encoding_format: 'base64' },
    answer: response('application/json', embeddings(base64)),
  },
  {
    name: 'embeddings, base64 to numbers',
    path: '/v1/embeddings',
    body: { model, input: texts },
    answer: response('application/json', embeddings(base64)),
  },
  {
    name: 'embeddings, numbers to numbers',
    path: '/v1/embeddings',
    body: { model, input: texts },
    answer: response('application/json', embeddings(numbers)),
  },
  {
    name: 'body of 31 MB, one text',
    path: '/v1/chat/completions',
    body: { model, messages: [{ role: 'user', content: prose.repeat(BODY_BYTES / prose.length) }] },
  },
  {
    name: 'body of 31 MB, many texts',
    path: '/v1/chat/completions',
    body: { model, messages: Array.from({ length: 31_000 }, () => ({ role: 'user', content: prose.repeat(22) })) },
  },
  {
    name: 'body of 31 MB, Cyrillic',
    path: '/v1/chat/completions',
    body: { model, messages: [{ role: 'user', content: cyrillic.repeat(BODY_BYTES / Buffer.byteLength(cyrillic)) }] },
  },
  {
    name: 'body of 9 MB, 300,000 messages',
    path: '/v1/chat/completions',
    body: { model, messages: Array.from({ length: 300_000 }, () => ({ role: 'user', content: '' })) },
  },
  {
    name: 'body of 31 MB for /v1/messages',
    path: '/v1/messages',
    body: { model, max_tokens: 10, messages: [{ role: 'user', content: prose.repeat(BODY_BYTES / prose.length) }] },
  },
  {
    name: 'body of 31 MB for /v1/embeddings',
    path: '/v1/embeddings',
    body: { model, input: texts.map(() => prose.repeat(BODY_BYTES / prose.length / VECTORS.count)) },
    answer: response('application/json', embeddings(base64)),
  },
  {
    name: 'answer of 31 MB, one text',
    path: '/v1/chat/completions',
    body: { model, messages: question },
    answer: response('application/json', answerOf(prose.repeat(BODY_BYTES / prose.length))),
  },
  {
    name: '10,000 tools',
    path: '/v1/chat/completions',
    body: {
      model,
      messages: question,
      tools: Array.from({ length: TOOLS }, (_, at) => {
        const property = { type: 'string', description: prose }
        const parameters = { type: 'object', properties: { one: property, two: property }, required: ['one'] }
        return { type: 'function', function: { name: `tool_${at}`, description: prose, parameters } }
      }),
    },
  },
  {
    name: 'chunks of one byte',
    path: '/v1/chat/completions',
    body: { model, messages: question, stream: true },
    answer: oneByteChunks(),
  },
  {
    name: '20,000 informational heads',
    path: '/v1/chat/completions',
    body: { model, messages: question },
    answer: Buffer.concat([
      Buffer.from('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(INFORMATIONAL_HEADS)),
      response('application/json', answer),
    ]),
  },
]

const asked = textFile(TRAINING_BYTES).toString('utf8').split('. ')
let questions = 0
/** A chat about one sentence of the knowledge base. Each call returns the chat of another sentence. */
const nextSearch = () => JSON.stringify({ model, index: INDEX, prompt: asked[(questions++ * 7_919) % asked.length] })

const SEARCH = {
  name: `chat that searches ${INDEXED_PASSAGES.toLocaleString('en')} passages`,
  path: '/api/external/chat/completions',
  text: nextSearch,
}

/** Trains the knowledge base that the last case searches. */
async function fillIndex({ url, key }) {
  const headers = { authorization: `Bearer ${key}` }
  const call = async (target, body, type) => {
    const response = await fetch(`${url}${target}`, { method: 'POST', headers: { ...headers, ...type }, body })
    const text = await response.text()
    if (!response.ok) throw new BenchError(`${target}: status ${response.status}: ${text.slice(0, 300)}`)
    return JSON.parse(text)
  }
  await call('/api/external/indexes', JSON.stringify({ name: INDEX }), { 'content-type': 'application/json' })
  for (let passages = 0, file = 1; passages < INDEXED_PASSAGES; file++) {
    const form = new FormData()
    form.append('files', new Blob([textFile(TRAINING_BYTES, file)]), `${file}.txt`)
    const { results } = await call(`/api/external/indexes/${INDEX}/train`, form)
    if (!(results.total_chunks > 0)) throw new BenchError('the training stored no passages')
    passages += results.total_chunks
  }
}

/** Starts an upstream that sends `shape.answer`, a complete response in raw bytes. */
function startUpstream() {
  const shape = { answer: undefined }
  const server = http.createServer((request, reply) => {
    request.resume().on('end', () => reply.socket.end(shape.answer ?? response('application/json', answer)))
  })
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve({ server, shape, url: `http://127.0.0.1:${server.address().port}` }))
  })
}

async function startGateway(session, upstream) {
  const files = { turns: path.join(session.dir, 'turns.json'), delay: path.join(session.dir, 'delay.json') }
  const { child, key } = spawnDaemon(session, {
    dir: path.join(session.dir, 'stalls'),
    nodeOptions: ['loop-turns.mjs', 'loop-delay.mjs'].flatMap((file) => ['--import', path.join(root, 'bench', file)]),
    mockUrl: upstream.url,
    cpu: CPU.measured,
    env: { BENCH_LOOP_TURNS: files.turns, BENCH_LOOP_DELAY: files.delay },
  })
  const { url } = await child.listening
  return { child, key, url, files }
}

/** Returns the figures that both modules collected since the previous call. */
async function readLoop({ child, files }) {
  for (const file of Object.values(files)) rmSync(file, { force: true })
  process.kill(child.pid, 'SIGUSR2')
  while (!Object.values(files).every((file) => existsSync(file))) await sleep(2)
  const read = (file) => JSON.parse(readFileSync(file, 'utf8'))
  return { turnMs: read(files.turns).maxMs, delay: read(files.delay) }
}

/** Requests `/livez` until the returned function is called. That function returns the sorted latencies. */
function startPings(url) {
  const pings = []
  let isOver = false
  const pinging = (async () => {
    while (!isOver) {
      const startedMs = performance.now()
      await (await fetch(`${url}/livez`)).arrayBuffer()
      pings.push(performance.now() - startedMs)
      await sleep(PING_PAUSE_MS)
    }
  })()
  return async () => {
    isOver = true
    await pinging
    return pings.sort((one, other) => one - other)
  }
}

async function measure(gateway, upstream, kase) {
  upstream.shape.answer = kase.answer
  await readLoop(gateway)
  const endPings = startPings(gateway.url)
  const reply = await fetch(`${gateway.url}${kase.path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: kase.text(),
  })
  const text = await reply.text()
  const pings = await endPings()
  const { turnMs, delay } = await readLoop(gateway)
  if (reply.status >= 500 && reply.status !== 502) {
    throw new BenchError(`${kase.name}: status ${reply.status}: ${text.slice(0, 300)}`)
  }
  const ping = { p99: pings[Math.ceil(pings.length * 0.99) - 1], max: pings.at(-1) }
  return { case: kase.name, status: reply.status, turnMs, delay, ping }
}

export async function benchStalls({ rounds, quick, noBuild, dataDir, part = '' }) {
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  const fixed = CASES.map(({ body, ...kase }) => {
    const text = JSON.stringify(body)
    return { ...kase, text: () => text }
  })
  const cases = [...fixed, SEARCH].filter(({ name }) => name.includes(part))
  if (cases.length === 0) throw new BenchError('--part must be a part of the name of a case')
  const upstream = await startUpstream()
  const runs = []
  try {
    await withSession({ dataDir }, async (session) => {
      const gateway = await startGateway(session, upstream)
      if (cases.includes(SEARCH)) await fillIndex(gateway)
      // Warm-up, so that V8 compiles the functions.
      for (const kase of cases) await measure(gateway, upstream, kase)
      for (let round = 0; round < (rounds ?? (quick ? QUICK_ROUNDS : FULL_ROUNDS)); round++) {
        for (const kase of cases) runs.push(await measure(gateway, upstream, kase))
      }
    })
  } finally {
    upstream.server.close()
  }
  const rows = cases.map(({ name }) => {
    const own = runs.filter((run) => run.case === name)
    const worst = (figureOf) => figure(Math.max(...own.map(figureOf)))
    return [
      name,
      `${own[0].status}`,
      worst(({ turnMs }) => turnMs),
      worst(({ delay }) => delay.p99),
      worst(({ delay }) => delay.max),
      worst(({ ping }) => ping.p99),
      worst(({ ping }) => ping.max),
    ]
  })
  console.log(`${machineLine(machine)}\n`)
  const columns = ['case', 'status', 'longest turn, CPU ms', 'delay p99, ms', 'max', '/livez p99, ms', 'max']
  console.log(`${table(columns, rows)}\n`)
  return { machine, runs }
}
