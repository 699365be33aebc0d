import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../../shared/errors.ts'
import { HEADER_COUNT } from '../../shared/spec-limits.ts'

/** A second one of these would let two programs read two different requests out of the same bytes. */
const ONCE = new Set(['host', 'authorization', 'content-length', 'content-type', 'idempotency-key'])
const ONCE_LENGTHS = new Set([...ONCE].map((name) => name.length))

export type Target = { path: string; search: string }

/**
 * Checks what is known before the body (architecture §8) and splits the target.
 * @throws INVALID_HTTP or HEADERS_TOO_LARGE naming the fault.
 */
export function checkRequestHead(request: IncomingMessage): Target {
  checkHeaders(request)
  return splitTarget(request.url ?? '')
}

function checkHeaders(request: IncomingMessage): void {
  const raw = request.rawHeaders
  if (raw.length / 2 > HEADER_COUNT) {
    throw new GatewayError('HEADERS_TOO_LARGE', `A request may have at most ${HEADER_COUNT} headers.`)
  }
  const seen: string[] = []
  for (let at = 0; at < raw.length; at += 2) {
    const rawName = raw[at] as string
    if (!ONCE_LENGTHS.has(rawName.length)) continue
    const name = rawName.toLowerCase()
    if (!ONCE.has(name)) continue
    if (seen.includes(name)) throw new GatewayError('INVALID_HTTP', `The header "${name}" was sent more than once.`)
    seen.push(name)
  }
  if (request.httpVersionMinor === 0 && request.headers['transfer-encoding'] !== undefined) {
    throw new GatewayError('INVALID_HTTP', 'HTTP/1.0 has no chunked bodies; send a Content-Length.')
  }
  if (request.httpVersionMinor === 1 && request.headers.host === undefined) {
    throw new GatewayError('INVALID_HTTP', 'The Host header is missing.')
  }
}

function splitTarget(target: string): Target {
  if (!target.startsWith('/') || target.startsWith('//')) {
    throw new GatewayError('INVALID_HTTP', 'The request target must be a path that starts with a single "/".')
  }
  const question = target.indexOf('?')
  return question < 0
    ? { path: target, search: '' }
    : { path: target.slice(0, question), search: target.slice(question + 1) }
}
