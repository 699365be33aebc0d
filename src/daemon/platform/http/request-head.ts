// Checks the target and the headers of a request.
import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../../../shared/errors.ts'

const HEADER_COUNT = 100

/** If one of these headers were repeated, two programs could read different requests from the same bytes. */
const ONCE = new Set(['host', 'authorization', 'content-length', 'content-type', 'idempotency-key'])
const ONCE_LENGTHS = new Set([...ONCE].map((name) => name.length))

export type Target = { path: string; search: string }

/**
 * Checks the parts of a request that precede the body, and splits the target.
 * @throws INVALID_HTTP, HEADERS_TOO_LARGE or TRANSFER_CODING_UNSUPPORTED naming the fault. The end of an invalid
 * request is uncertain, so the connection must not be used for further requests.
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
  checkTransferCoding(request)
  if (request.httpVersionMinor === 1 && request.headers.host === undefined) {
    throw new GatewayError('INVALID_HTTP', 'The Host header is missing.')
  }
}

/**
 * Node decodes `chunked` if it is the last coding, regardless of earlier codings. A proxy may find a different end of
 * the body. The bytes in between would then be read as another client's request (RFC 9112 §6.1).
 */
function checkTransferCoding({ headers, httpVersionMinor }: IncomingMessage): void {
  const coding = headers['transfer-encoding']
  if (coding === undefined) return
  if (httpVersionMinor === 0) {
    throw new GatewayError('INVALID_HTTP', 'HTTP/1.0 does not support chunked bodies. Send a Content-Length.')
  }
  if (coding.trim().toLowerCase() === 'chunked') return
  const message = 'The only supported Transfer-Encoding is "chunked". Send the body without any other encoding.'
  throw new GatewayError('TRANSFER_CODING_UNSUPPORTED', message)
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
