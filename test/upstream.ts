import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { secretWatch } from './secret-watch.ts'

/** One request that the upstream got. */
export type ReceivedRequest = {
  method: string
  path: string
  headers: IncomingHttpHeaders
  rawBody: string
  /** The JSON body; undefined when it is not JSON. */
  body: unknown
  /** Resolves when the client goes away before the answer is complete; never otherwise. */
  aborted: Promise<void>
  isAborted: boolean
  /** Which connection it came on, counted from 1; equal numbers show keep-alive at work. */
  connection: number
}

/** What a script may do with one request. */
export type Exchange = {
  request: ReceivedRequest
  /** Sends status and headers. */
  head(status: number, headers?: Record<string, string>): void
  /** Sends one piece as its own TCP write and gives the reader a turn, so that pieces arrive apart. */
  write(piece: string | Uint8Array): Promise<void>
  /** Ends the answer as HTTP wants it. */
  end(): void
  /** Closes the connection in order (FIN) in the middle of the answer. */
  close(): void
  /** Breaks the connection (RST) in the middle of the answer. */
  reset(): void
}

/** Plays the answer to one request. */
export type Script = (exchange: Exchange) => void | Promise<void>

/** A piece of body, or a promise that holds the answer back until the test resolves it. */
export type Step = string | Uint8Array | Promise<unknown>

/** How a played body ends; `hang` sends nothing more and keeps the connection. */
export type Ending = 'end' | 'close' | 'reset' | 'hang'

export type Upstream = {
  /** `http://127.0.0.1:<port>/v1`, fit for `base_url`. */
  url: string
  /** Every request so far, oldest first. */
  requests: ReceivedRequest[]
  /** The next request that no earlier call returned; waits for it when it is not there yet. */
  nextRequest(): Promise<ReceivedRequest>
  /** Queues scripts; each request takes one, in order of arrival. */
  script(...scripts: Script[]): void
  /** What plays when the queue is empty; at first a 500. */
  fallback(script: Script): void
  /** Connections opened so far. */
  connections(): number
  /** Breaks every connection and stops listening. */
  close(): Promise<void>
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** A real HTTP server on a free port of 127.0.0.1 that answers as its scripts say. */
export async function startUpstream(): Promise<Upstream> {
  const queue: Script[] = []
  const requests: ReceivedRequest[] = []
  const takers: ((request: ReceivedRequest) => void)[] = []
  const sockets = new Map<Socket, number>()
  let taken = 0
  let connections = 0
  let otherwise: Script = replyJson({ error: { message: 'no script for this request' } }, { status: 500 })

  const server = createServer(async (incoming, response) => {
    const request = await receive(incoming, response, sockets.get(incoming.socket) ?? 0)
    requests.push(request)
    const taker = takers.shift()
    if (taker) {
      taken++
      taker(request)
    }
    await (queue.shift() ?? otherwise)(exchangeOf(request, response))
  })
  server.keepAliveTimeout = 60_000
  server.on('connection', (socket) => {
    sockets.set(socket, ++connections)
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    nextRequest() {
      const ready = requests[taken]
      if (!ready || takers.length > 0) return new Promise((resolve) => takers.push(resolve))
      taken++
      return Promise.resolve(ready)
    },
    script: (...scripts) => void queue.push(...scripts),
    fallback(script) {
      otherwise = script
    },
    connections: () => connections,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets.keys()) socket.destroy()
      }),
  }
}

async function receive(
  incoming: IncomingMessage,
  response: ServerResponse,
  connection: number,
): Promise<ReceivedRequest> {
  let reportAborted = () => {}
  const request: ReceivedRequest = {
    method: incoming.method ?? '',
    path: incoming.url ?? '',
    headers: incoming.headers,
    rawBody: '',
    body: undefined,
    aborted: new Promise((resolve) => {
      reportAborted = resolve
    }),
    isAborted: false,
    connection,
  }
  // Both ends may go first: only a close that `end()` did not cause is the client leaving.
  response.on('close', () => {
    if (response.writableEnded) return
    request.isAborted = true
    reportAborted()
  })
  const pieces: Buffer[] = []
  for await (const piece of incoming) pieces.push(piece)
  request.rawBody = Buffer.concat(pieces).toString()
  try {
    request.body = JSON.parse(request.rawBody)
  } catch {
    request.body = undefined
  }
  return request
}

function exchangeOf(request: ReceivedRequest, response: ServerResponse): Exchange {
  return {
    request,
    head(status, headers = {}) {
      response.writeHead(status, headers)
      response.flushHeaders()
    },
    async write(piece) {
      if (response.destroyed || piece.length === 0) return
      await new Promise<void>((resolve) => {
        response.once('close', resolve)
        response.write(piece, () => {
          response.off('close', resolve)
          resolve()
        })
      })
      // The reader lives in this process: two turns of the event loop let it poll its socket in between.
      await turn()
      await turn()
    },
    end: () => void response.end(),
    close: () => void response.socket?.destroySoon(),
    reset: () => void response.socket?.resetAndDestroy(),
  }
}

/** Answers with one JSON body. */
export function replyJson(body: unknown, options: { status?: number; headers?: Record<string, string> } = {}): Script {
  return replyRaw(JSON.stringify(body), { contentType: 'application/json', ...options })
}

/** Answers with a body as it is, whole, with its Content-Length. */
export function replyRaw(
  body: string | Uint8Array,
  options: { status?: number; headers?: Record<string, string>; contentType?: string } = {},
): Script {
  return ({ head, write, end }) => {
    head(options.status ?? 200, {
      'content-type': options.contentType ?? 'text/event-stream',
      'content-length': String(Buffer.byteLength(body)),
      ...options.headers,
    })
    return write(body).then(end)
  }
}

/** Plays pieces one TCP write each, chunked; a promise among them is awaited before the next piece. */
export function replySteps(
  steps: readonly Step[],
  options: { ending?: Ending; status?: number; headers?: Record<string, string>; contentType?: string } = {},
): Script {
  return async (exchange) => {
    exchange.head(options.status ?? 200, {
      'content-type': options.contentType ?? 'text/event-stream',
      ...options.headers,
    })
    for (const step of steps) {
      if (step instanceof Promise) await step
      else await exchange.write(step)
    }
    const ending = options.ending ?? 'end'
    if (ending !== 'hang') exchange[ending]()
  }
}

/** Plays a recorded body cut at the given byte offsets. */
export function replySplit(
  body: string | Uint8Array,
  offsets: readonly number[],
  options: Parameters<typeof replySteps>[1] = {},
): Script {
  return replySteps(splitAt(body, offsets), options)
}

/** Plays the first `bytes` of a body, then breaks the connection (RST), or closes it in order (FIN). */
export function replyCut(
  body: string | Uint8Array,
  bytes: number,
  ending: 'reset' | 'close' | 'end' = 'reset',
  options: { headers?: Record<string, string>; contentType?: string } = {},
): Script {
  return replySteps([Buffer.from(body).subarray(0, bytes)], { ending, ...options })
}

/** Never answers; the connection stays until the client or `close()` ends it. */
export const hang: Script = () => {}

/** Breaks the connection without a byte of answer. */
export const resetAtOnce: Script = ({ reset }) => reset()

/** `body` cut at the given byte offsets, which may come in any order; empty pieces are left out. */
export function splitAt(body: string | Uint8Array, offsets: readonly number[]): Buffer[] {
  const bytes = Buffer.from(body)
  const cuts = [...new Set([0, ...offsets.filter((at) => at > 0 && at < bytes.length)])].sort((a, b) => a - b)
  return cuts.map((at, position) => bytes.subarray(at, cuts[position + 1] ?? bytes.length))
}

type Usage = { prompt_tokens: number; completion_tokens: number; [detail: string]: unknown }

/** An SSE body in the OpenAI shape: one chunk per text, then the finish reason, usage when given, and `[DONE]`. */
export function chatStream(
  texts: readonly string[],
  options: { finishReason?: string | null; usage?: Usage; done?: boolean } = {},
): string {
  const { finishReason = 'stop', usage, done = true } = options
  secretWatch.addWords(texts.join(''))
  const chunk = (choices: object[], more: object = {}) =>
    `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1767225600, model: 'test', choices, ...more })}\n\n`
  return [
    chunk([{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }]),
    ...texts.map((content) => chunk([{ index: 0, delta: { content }, finish_reason: null }])),
    finishReason === null ? '' : chunk([{ index: 0, delta: {}, finish_reason: finishReason }]),
    usage ? chunk([], { usage: { total_tokens: usage.prompt_tokens + usage.completion_tokens, ...usage } }) : '',
    done ? 'data: [DONE]\n\n' : '',
  ].join('')
}

/** The non-streamed body in the OpenAI shape. */
export function chatJson(
  content: string | null,
  options: { finishReason?: string | null; usage?: Usage; message?: object } = {},
): object {
  const { finishReason = 'stop', usage, message = {} } = options
  secretWatch.addWords(content)
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1767225600,
    model: 'test',
    choices: [{ index: 0, message: { role: 'assistant', content, ...message }, finish_reason: finishReason }],
    ...(usage && { usage: { total_tokens: usage.prompt_tokens + usage.completion_tokens, ...usage } }),
  }
}
