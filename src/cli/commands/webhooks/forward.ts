/** Forwards an event to a local receiver. */
import { randomUUID } from 'node:crypto'
import http from 'node:http'
import https from 'node:https'
import { urlToHttpOptions } from 'node:url'
import { WEBHOOK_ATTEMPT_MS, WEBHOOK_RESPONSE_BYTES } from '../../../shared/spec-limits.ts'
import { sign } from '../../../shared/webhook-signature.ts'
import { isErrno } from '../../errors.ts'
import type { Io } from '../../io.ts'
import type { ReceivedEvent } from './event-stream.ts'

export type Forwarded = {
  /** X-Service-Delivery. */
  delivery: string
  /** The value is null if the receiver sent no response. */
  status: number | null
  duration_ms: number
  /**
   * The reason why no response arrived, or the first line of a non-2xx response. The value is null for a 2xx response.
   */
  error: string | null
}

/**
 * Sends one signed POST in the same way as the gateway: within 5 s in total, and without following redirects. If the
 * receiver fails, returns the failure as a result instead of throwing an error.
 */
export async function forwardEvent(
  event: ReceivedEvent,
  { url, secret, io }: { url: URL; secret: string; io: Io },
): Promise<Forwarded> {
  const startedAt = io.clock.monotonic()
  const delivery = randomUUID()
  const { id, type, created, data } = event
  const body = Buffer.from(JSON.stringify({ id, type, created, data }))
  const headers = {
    'Content-Type': 'application/json',
    'Content-Length': String(body.length),
    'X-Service-Event': type,
    'X-Service-Delivery': delivery,
    'X-Service-Signature': sign(body, [secret], Math.floor(io.clock.now() / 1000)),
  }
  const took = () => Math.round(io.clock.monotonic() - startedAt)
  try {
    const { status, text } = await post(url, headers, body, io)
    const isAccepted = status >= 200 && status < 300
    return { delivery, status, duration_ms: took(), error: isAccepted ? null : firstLine(text) || null }
  } catch (error) {
    if (io.signal.aborted) throw io.signal.reason
    return { delivery, status: null, duration_ms: took(), error: reasonOf(error) }
  }
}

function post(url: URL, headers: Record<string, string>, body: Buffer, { clock, signal }: Io) {
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const request = (url.protocol === 'https:' ? https : http).request({
      ...urlToHttpOptions(url),
      method: 'POST',
      headers,
      signal,
    })
    const timer = clock.after(WEBHOOK_ATTEMPT_MS, () => request.destroy(new Error('no answer within 5 s')))
    const fail = (error: Error) => {
      timer.cancel()
      reject(error)
    }
    const chunks: Buffer[] = []
    let size = 0
    request.on('response', (response) => {
      const finish = () => {
        timer.cancel()
        resolve({
          status: response.statusCode ?? 0,
          text: Buffer.concat(chunks).subarray(0, WEBHOOK_RESPONSE_BYTES).toString(),
        })
        request.destroy()
      }
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        size += chunk.length
        if (size >= WEBHOOK_RESPONSE_BYTES) finish()
      })
      response.on('end', finish)
      response.on('error', fail)
    })
    request.on('error', fail)
    request.end(body)
  })
}

const firstLine = (text: string): string => text.trim().split('\n', 1)[0]?.trim() ?? ''

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was closed',
  ENOTFOUND: 'no such host',
}

function reasonOf(error: unknown): string {
  const known = isErrno(error) ? REASONS[error.code ?? ''] : undefined
  return known ?? (error instanceof Error && error.message !== '' ? error.message : String(error))
}
