// One simulated provider on loopback. It speaks OpenAI's chat completions and Responses, Anthropic's Messages and
// Gemini's generateContent, streamed and not. The prompt names the scenario (see prompt.mjs), and the provider derives
// its answer from the conversation alone. It records the facts of each request under the cell of the table.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerOf } from './answers.mjs'
import { data, sha256 } from './data.mjs'
import * as chat from './interfaces/chat.mjs'
import * as gemini from './interfaces/gemini.mjs'
import * as messages from './interfaces/messages.mjs'
import * as responses from './interfaces/responses.mjs'
import { readMark } from './prompt.mjs'

const INTERFACES = { chat, responses, messages, gemini }

/** The time between two pieces, so that they arrive one by one, and the number of pieces of an answer without an end. */
const PIECE_MS = 10
const SLOW_PIECES = 3000
/** Automatic caches of providers ignore shorter prompts. */
const CACHED_TOKENS_MIN = 1024

const tokensOf = (chars) => Math.ceil(chars / 4)
/** Providers count a file by its pixels or pages, not by its bytes. */
const BASE64 = /[\w+/]{1000,}={0,2}/g
const charsOf = (block) => block.replace(BASE64, 'x'.repeat(4000)).length

/** The facts of a request that the judge compares. `read` is what the interface read. */
function factsOf(read, rawBody, mark) {
  const parts = read.turns.flatMap(({ role, parts: given }) => given.map((part) => ({ role, ...part })))
  const files = (kind) => parts.filter((part) => part.kind === kind && part.url?.startsWith('data:'))
  const bytesOf = ({ url }) => Buffer.from(url.slice(url.indexOf(',') + 1), 'base64')
  const hashes = (kind) => files(kind).map((part) => sha256(bytesOf(part)))
  const addresses = (kind) =>
    parts.filter((part) => part.kind === kind && /^https?:/.test(part.url)).map(({ url }) => url)
  // A session may contain earlier prompts. Only what follows the latest one counts.
  const asked = parts.findLastIndex(
    (part) => part.kind === 'text' && part.role !== 'assistant' && readMark(part.text)?.cell === mark.cell,
  )
  return {
    model: read.model,
    streamed: read.stream,
    bodyBytes: Buffer.byteLength(rawBody),
    tools: read.tools,
    forcedTool: read.forcedTool,
    hasSchema: read.schema !== undefined,
    maxTokens: read.maxTokens,
    stop: read.stop,
    cacheKey: read.cacheKey,
    cacheMarks: read.marks?.length ?? 0,
    images: hashes('image'),
    imageAddresses: addresses('image'),
    files: hashes('file'),
    fileAddresses: addresses('file'),
    hasLongText: parts.some(({ text }) => text?.includes(data.text600k)),
    results: parts
      .slice(asked + 1)
      .filter(({ kind }) => kind === 'result')
      .map(({ text }) => text),
    fault: faultOfCalls(read.turns),
  }
}

/** Providers reject a conversation in which a call has no result, or a result no call. */
function faultOfCalls(turns) {
  const open = []
  for (const { role, parts } of turns) {
    for (const { kind, id, name } of parts) {
      if (kind === 'call') open.push(id ?? name)
      if (kind !== 'result') continue
      const at = open.indexOf(id ?? name)
      if (at < 0) return `the result of the call ${id ?? name} has no call before it`
      open.splice(at, 1)
    }
    const hasText = parts.some(({ kind }) => kind === 'text')
    if (role === 'user' && hasText && open.length > 0) return `the call ${open[0]} has no result`
  }
  return open.length > 0 ? `the call ${open[0]} has no result` : undefined
}

/**
 * The prompt cache of one cell. A prefix that an earlier request wrote is read. Anthropic writes only up to the marks
 * of a request; the other providers write every request.
 */
function cacheOf() {
  const written = new Set()
  const seen = new Set()
  return ({ blocks, marks }) => {
    let hash = ''
    let chars = 0
    const prefixes = blocks.map((block) => {
      hash = sha256(hash + block)
      chars += charsOf(block)
      return { hash, tokens: tokensOf(chars) }
    })
    const automatic = marks === undefined
    const ends = automatic ? [prefixes.length - 1] : marks
    const last = ends.at(-1) ?? -1
    const isLong = ({ tokens }) => !automatic || tokens >= CACHED_TOKENS_MIN
    // A provider reads the longest prefix up to the last mark.
    const read = prefixes.slice(0, last + 1).findLast((prefix) => written.has(prefix.hash) && isLong(prefix))
    const extendsEarlier = seen.size === 0 || prefixes.some((prefix) => seen.has(prefix.hash))
    if (prefixes.length > 0) seen.add(prefixes.at(-1).hash)
    for (const end of ends) written.add(prefixes[end].hash)
    const input = prefixes.at(-1)?.tokens ?? 0
    const cached = read?.tokens ?? 0
    return { input, cached, written: automatic || last < 0 ? 0 : prefixes[last].tokens - cached, extendsEarlier }
  }
}

/** Splits a text into pieces as a model streams them. */
const piecesOf = (text) => text.match(/\S+\s*|\s+/g) ?? []

/**
 * Starts the provider.
 * @returns {Promise<{url: string, received: (cell: string) => object[], close: () => Promise<void>}>}
 */
export async function startProvider() {
  const cells = new Map()
  const cellOf = (cell) => {
    if (!cells.has(cell)) cells.set(cell, { requests: [], cache: cacheOf() })
    return cells.get(cell)
  }

  async function answer(request, response) {
    const url = new URL(request.url, 'http://provider')
    const api = Object.values(INTERFACES).find(({ path }) => path.test(url.pathname))
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    const rawBody = Buffer.concat(chunks).toString()
    const json = (status, body) => {
      const text = JSON.stringify(body)
      response.writeHead(status, {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(text),
        'x-request-id': 'req_1',
      })
      response.end(text)
    }
    if (!api || request.method !== 'POST')
      return json(404, {
        error: { message: `no route ${request.method} ${url.pathname}`, type: 'invalid_request_error' },
      })
    const body = JSON.parse(rawBody)
    const refusal = api.refusal(body, request.headers, url)
    if (refusal) return json(refusal.includes('key') ? 401 : 400, api.error(400, refusal))
    const read = api.read(body, url)
    const mark = readMark(rawBody) ?? { scenario: 'none', cell: 'none' }
    const cell = cellOf(mark.cell)
    const facts = { at: url.pathname, ...factsOf(read, rawBody, mark), isAborted: false }
    cell.requests.push(facts)
    if (facts.fault) return json(400, api.error(400, facts.fault))
    const { extendsEarlier, ...counted } = cell.cache(read)
    if (/count_?tokens$/i.test(url.pathname)) {
      Object.assign(facts, { isCount: true })
      return json(200, api.tokens(counted))
    }
    const given = answerOf(mark, facts)
    const output = tokensOf(
      given.text.length + given.calls.reduce((sum, { input }) => sum + JSON.stringify(input).length, 0),
    )
    const usage = { ...counted, output }
    const head = { id: randomBytes(12).toString('hex'), created: Math.floor(Date.now() / 1000), model: read.model }
    Object.assign(facts, { usage, extendsEarlier, isAnswered: false })
    const gone = new AbortController()
    response.once('close', () => {
      facts.isAborted = !facts.isAnswered && given.mode !== 'break'
      gone.abort()
    })
    const context = { answer: given, head, body, usage }
    if (read.stream) await stream(response, api.stream(context), context, gone.signal)
    else if (given.mode === 'slow') await once(response, 'close')
    else if (given.mode === 'break') {
      const text = JSON.stringify(api.whole(context))
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
      response.write(text.slice(0, text.length >> 1), () => response.destroy())
      return
    } else json(200, api.whole(context))
    facts.isAnswered = !response.destroyed || response.writableFinished
  }

  async function stream(response, frames, { answer: given, usage }, signal) {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'x-request-id': 'req_1' })
    response.write(frames.open())
    if (given.pauseMs) await sleep(given.pauseMs)
    const pieces = piecesOf(given.text)
    if (given.mode === 'slow') {
      for (let at = 0; at < SLOW_PIECES && !signal.aborted; at++) {
        response.write(frames.piece(`${at} `))
        await sleep(PIECE_MS)
      }
    } else if (given.mode === 'break') {
      const half = pieces.slice(0, pieces.length >> 1)
      for (const piece of half.slice(0, -1)) response.write(frames.piece(piece))
      // The connection dies when the client has the pieces.
      await new Promise((resolve) => response.write(frames.piece(half.at(-1)), resolve))
      await sleep(PIECE_MS)
      return response.destroy()
    } else {
      for (const piece of pieces) {
        response.write(frames.piece(piece))
        if (given.mode === 'paced') await sleep(PIECE_MS)
      }
    }
    if (!signal.aborted) response.end(frames.close(given, usage))
  }

  const server = http.createServer((request, response) => {
    answer(request, response).catch((error) => {
      // A client that disconnects is part of several scenarios.
      if (request.destroyed || response.destroyed) return
      console.error('simulated provider:', error)
      response.destroy()
    })
  })
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    received: (cell) => cells.get(cell)?.requests ?? [],
    forget: (cell) => cells.delete(cell),
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}
