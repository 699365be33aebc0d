import { chatJson } from '../upstream.ts'
import type { Play, RawExchange } from './raw-upstream.ts'

type Bytes = string | Uint8Array
type Headers = Record<string, string>
type Ending = 'end' | 'fin' | 'reset' | 'silence'

export const usage = { prompt_tokens: 12, completion_tokens: 7 }

/** The head of a response in wire format. */
export function head(status: number, headers: Headers = {}): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} Status\r\n${lines.join('')}\r\n`
}

export function chunk(bytes: Bytes): Buffer {
  const content = Buffer.from(bytes)
  return Buffer.concat([Buffer.from(`${content.length.toString(16)}\r\n`), content, Buffer.from('\r\n')])
}

export const LAST_CHUNK = '0\r\n\r\n'
export const STREAM_HEAD = head(200, { 'content-type': 'text/event-stream', 'transfer-encoding': 'chunked' })
const EVENT_STREAM = { 'content-type': 'text/event-stream' }

/** A stream event. */
export const event = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`
export const choice = (fields: object) => event({ object: 'chat.completion.chunk', choices: [{ index: 0, ...fields }] })
export const word = (content: string) => choice({ delta: { content }, finish_reason: null })
export const finish = (reason: string | null) => choice({ delta: {}, finish_reason: reason })
export const counted = event({ choices: [], usage: { ...usage, total_tokens: 19 } })
export const DONE = 'data: [DONE]\n\n'

/** Sends these bytes one after the other, then closes the connection or stays silent. */
export function bytes(pieces: readonly Bytes[], ending: Exclude<Ending, 'end'> = 'fin'): Play {
  return async (exchange) => {
    for (const piece of pieces) await exchange.send(piece)
    if (ending !== 'silence') exchange[ending]()
  }
}

/** A chunked event stream of these pieces. */
export function stream(pieces: readonly Bytes[], ending: Ending = 'end', headers: Headers = EVENT_STREAM): Play {
  return async (exchange) => {
    await exchange.send(head(200, { ...headers, 'transfer-encoding': 'chunked' }))
    for (const piece of pieces) await exchange.send(chunk(piece))
    if (ending === 'end') await exchange.send(LAST_CHUNK)
    else if (ending !== 'silence') exchange[ending]()
  }
}

/** A whole response with a content-length. */
export function reply(status: number, body: Bytes, headers: Headers = {}): Play {
  const length = String(Buffer.byteLength(body))
  const answer = Buffer.concat([
    Buffer.from(head(status, { 'content-type': 'application/json', 'content-length': length, ...headers })),
    Buffer.from(body),
  ])
  return (exchange) => exchange.send(answer)
}

export const json = (body: unknown, status = 200, headers: Headers = {}): Play =>
  reply(status, JSON.stringify(body), headers)

/** A complete chat completion. */
export const completion = (content: string | null, options: Parameters<typeof chatJson>[1] = {}) =>
  JSON.stringify(chatJson(content, { usage, ...options }))

/** Sends a piece every `everyMs` until the client disconnects. */
export function drip(first: readonly Bytes[], next: (count: number) => Bytes, everyMs = 20): Play {
  return async (exchange) => {
    for (const piece of first) await exchange.send(piece)
    for (let count = 0; !exchange.gone; count++) {
      await exchange.send(next(count))
      await exchange.pass(everyMs)
    }
  }
}

/** Sends as fast as the client reads. */
export function flood(first: readonly Bytes[], next: Bytes, times = Number.POSITIVE_INFINITY): Play {
  return async (exchange) => {
    for (const piece of first) await exchange.send(piece)
    for (let count = 0; count < times && !exchange.gone; count++) await exchange.send(next)
  }
}

/** Waits for `ms`, then runs `play`. */
export function late(ms: number, play: Play): Play {
  return async (exchange: RawExchange) => {
    await exchange.pass(ms)
    await play(exchange)
  }
}
