import type { IncomingHttpHeaders } from 'node:http'
import { CliError, type CliErrorOptions, EXIT, isErrno } from './errors.ts'
import { findAtPath } from './formats.ts'

export type FailedAnswer = {
  status: number
  requestId: string | undefined
  raw: Uint8Array
  headers: IncomingHttpHeaders
}

const EXIT_OF_STATUS: Record<number, number> = {
  401: EXIT.auth,
  403: EXIT.forbidden,
  404: EXIT.notFound,
  408: EXIT.unreachable,
  409: EXIT.conflict,
  429: EXIT.rateLimited,
  502: EXIT.upstream,
  503: EXIT.upstream,
  504: EXIT.upstream,
}

/** What a refusal of the gateway means to a script, from either of its two error bodies (spec: Errors). */
export function toHttpError({ status, requestId, raw, headers }: FailedAnswer): CliError {
  const body = parseBody(raw)
  const structured = typeof findAtPath(body, 'error') === 'object'
  const textAt = (path: string): string | undefined => {
    const value = findAtPath(body, path)
    return typeof value === 'string' && value !== '' ? value : undefined
  }
  const label = structured ? textAt('error.code') : textAt('error')
  const text = structured ? textAt('error.message') : textAt('message')
  const exhausted = label === 'All model attempts failed'
  const otherwise = status < 500 ? EXIT.usage : EXIT.error
  return new CliError(
    exhausted ? EXIT.upstream : (EXIT_OF_STATUS[status] ?? otherwise),
    `${text ?? `the gateway answered ${status}`}${label === undefined ? '' : ` (${label})`}`,
    {
      code: label ?? `HTTP_${status}`,
      httpStatus: status,
      requestId: textAt('request_id') ?? requestId,
      retryable: status === 429 || status >= 500,
      hints: hintsFor(status, body, headers),
    },
  )
}

function parseBody(raw: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(raw).toString())
  } catch {
    // A proxy in between may answer with a page of its own; the status then has to do.
    return undefined
  }
}

function hintsFor(status: number, body: unknown, headers: IncomingHttpHeaders): string[] {
  const attempts = findAtPath(body, 'attempts')
  if (Array.isArray(attempts) && attempts.length > 0) {
    return attempts.map(
      (attempt) =>
        `${findAtPath(attempt, 'model')}:  ${findAtPath(attempt, 'reason')} after ${findAtPath(attempt, 'latency_ms')} ms`,
    )
  }
  if (status === 401) return ['Sign in again:  aigw login', 'Who am I?       aigw whoami']
  if (status === 403) return ['What may this key do?  aigw whoami']
  if (status === 429) {
    const reset = findAtPath(body, 'reset_time')
    const seconds = findAtPath(body, 'error.retryAfter') ?? headers['retry-after']
    if (typeof reset === 'string') return [`Try again after ${reset}.`]
    return seconds === undefined ? ['Try again later.'] : [`Try again in ${seconds} seconds.`]
  }
  const field = findAtPath(body, 'error.details.field')
  if (typeof field === 'string') return [`Field:  ${field}`]
  return status >= 500 ? ["The gateway's log has more under the request id."] : []
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was closed',
  EPIPE: 'the connection was closed',
  ENOTFOUND: 'no such host',
  EAI_AGAIN: 'the name could not be resolved',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  ETIMEDOUT: 'connection timed out',
}
const isTlsFault = (code: string): boolean => /^(CERT_|ERR_TLS|ERR_SSL|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)/.test(code)

/** No answer came. A refused connection is always worth another try, a broken one only when repeating is safe. */
export function unreachable(baseUrl: string, error: unknown, { repeatable }: { repeatable: boolean }): CliError {
  const code = (isErrno(error) ? error.code : undefined) ?? 'unknown'
  const reason = REASONS[code] ?? (error instanceof Error && error.message !== '' ? error.message : code)
  const hints = isTlsFault(code)
    ? ['Own certificate authority?  set NODE_EXTRA_CA_CERTS=/path/to/ca.pem']
    : ['Is it running?   systemctl status aigw', 'Other address?   aigw profiles list, or --base-url']
  return new CliError(EXIT.unreachable, `cannot reach the gateway at ${baseUrl} (${reason})`, {
    code: 'UNREACHABLE',
    hints,
    retryable: !isTlsFault(code) && code !== 'ENOTFOUND' && (repeatable || code === 'ECONNREFUSED'),
    cause: error,
  })
}

export const timedOut = (baseUrl: string, timeoutMs: number): CliError =>
  new CliError(EXIT.unreachable, `no answer from ${baseUrl} within ${timeoutMs / 1000} s`, {
    code: 'TIMEOUT',
    hints: ['Allow more time:  --timeout 2m', 'Is it healthy?    aigw health'],
  })

/** An answer began and its connection broke. */
export function brokenAnswer(error: unknown, requestId: string | undefined): CliError {
  const options: CliErrorOptions = { code: 'ANSWER_BROKEN', requestId, retryable: true, cause: error }
  return new CliError(EXIT.upstream, 'the connection broke in the middle of the answer', options)
}

/** A redirect is refused: following it could hand the key to another host. */
export function redirected(baseUrl: string, location: string | undefined): CliError {
  const target = location === undefined ? 'elsewhere' : `to ${location}`
  return new CliError(EXIT.error, `${baseUrl} redirects ${target}, which is not followed`, {
    code: 'REDIRECTED',
    hints: ['If that is your gateway, use its address:  --base-url URL'],
  })
}
