import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { secretWatch } from './secret-watch.ts'

/** One request that the upstream received. */
export type ReceivedRequest = {
  method: string
  path: string
  headers: IncomingHttpHeaders
  rawBody: string
  /** The parsed JSON body. Undefined if it is not JSON. */
  body: unknown
  /** Resolves when the client disconnects before the answer is complete. Otherwise it never resolves. */
  aborted: Promise<void>
  isAborted: boolean
  /** The number of its connection, starting at 1. Equal numbers mean keep-alive. */
  connection: number
}

/** The actions of a script on one request. */
export type Exchange = {
  request: ReceivedRequest
  /** Sends status and headers. */
  head(status: number, headers?: Record<string, string>): void
  /** Sends one chunk as a TCP write and lets the reader run, so that chunks arrive separately. */
  write(piece: string | Uint8Array): Promise<void>
  /** Ends the response properly. */
  end(): void
  /** Closes the connection (FIN) before the response is complete. */
  close(): void
  /** Resets the connection (RST) before the response is complete. */
  reset(): void
}

/** Answers one request. */
export type Script = (exchange: Exchange) => void | Promise<void>

/** A chunk of the body, or a promise that delays it until the test resolves it. */
export type Step = string | Uint8Array | Promise<unknown>

/** The end of a body. `hang` sends nothing more and keeps the connection open. */
export type Ending = 'end' | 'close' | 'reset' | 'hang'

export type Upstream = {
  /** `http://127.0.0.1:<port>/v1`, for use as `base_url`. */
  url: string
  /** All requests so far, oldest first. */
  requests: ReceivedRequest[]
  /** Resolves to the next request that no earlier call returned. */
  nextRequest(): Promise<ReceivedRequest>
  /** Queues scripts. Each request takes one, in order of arrival. */
  script(...scripts: Script[]): void
  /** Sets the script for an empty queue. The default responds with 500. */
  fallback(script: Script): void
  /** Number of connections opened so far. */
  connections(): number
  /** Resets all connections and stops listening. */
  close(): Promise<void>
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Starts a real HTTP server on a free port of 127.0.0.1 that answers by scripts. */
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
  // `close` also follows a normal end. It means a disconnected client only if `end()` was not called.
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
      // The reader runs in the same process. Two event loop turns let it read its socket.
      await turn()
      await turn()
    },
    end: () => void response.end(),
    close: () => void response.socket?.destroySoon(),
    reset: () => void response.socket?.resetAndDestroy(),
  }
}

/** Responds with one JSON body. */
export function replyJson(body: unknown, options: { status?: number; headers?: Record<string, string> } = {}): Script {
  return replyRaw(JSON.stringify(body), { contentType: 'application/json', ...options })
}

/** Responds with these bytes as the whole body, with Content-Length. */
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

/** Sends a chunked body with one TCP write per chunk. Awaits a promise before sending its chunk. */
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

/** Sends a recorded body, split at these byte offsets. */
export function replySplit(
  body: string | Uint8Array,
  offsets: readonly number[],
  options: Parameters<typeof replySteps>[1] = {},
): Script {
  return replySteps(splitAt(body, offsets), options)
}

/** Sends the first `bytes` bytes of a body, then resets (RST) or closes (FIN) the connection. */
export function replyCut(
  body: string | Uint8Array,
  bytes: number,
  ending: 'reset' | 'close' | 'end' = 'reset',
  options: { headers?: Record<string, string>; contentType?: string } = {},
): Script {
  return replySteps([Buffer.from(body).subarray(0, bytes)], { ending, ...options })
}

/** Never responds. The connection stays open until the client or `close()` closes it. */
export const hang: Script = () => {}

/** Resets the connection before sending any byte. */
export const resetAtOnce: Script = ({ reset }) => reset()

/** Splits `body` at these byte offsets, in any order. Drops empty chunks. */
export function splitAt(body: string | Uint8Array, offsets: readonly number[]): Buffer[] {
  const bytes = Buffer.from(body)
  const cuts = [...new Set([0, ...offsets.filter((at) => at > 0 && at < bytes.length)])].sort((a, b) => a - b)
  return cuts.map((at, position) => bytes.subarray(at, cuts[position + 1] ?? bytes.length))
}

type Usage = { prompt_tokens: number; completion_tokens: number; [detail: string]: unknown }

/** An OpenAI SSE body: one chunk per text, the finish reason, usage if given, and `[DONE]`. */
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

/** An OpenAI JSON body. */
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
