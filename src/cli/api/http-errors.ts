/** Turns HTTP statuses and network failures into errors with exit codes and hints. */
import type { IncomingHttpHeaders } from 'node:http'
import { CliError, type CliErrorOptions, EXIT, isErrno } from '../errors.ts'
import { findAtPath } from '../output/formats.ts'
import { attemptHints, logHint, needOperator } from './failed-models.ts'

type FailedAnswer = {
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

/** Turns an error response into an error. `error` in the body is an object or a string. */
export function toHttpError({ status, requestId, raw, headers }: FailedAnswer): CliError {
  const body = parseBody(raw)
  const structured = typeof findAtPath(body, 'error') === 'object'
  const textAt = (path: string): string | undefined => {
    const value = findAtPath(body, path)
    return typeof value === 'string' && value !== '' ? value : undefined
  }
  const label = structured ? textAt('error.code') : textAt('error')
  const message = structured ? textAt('error.message') : textAt('message')
  // A message about several faults has one line for each.
  const [text, ...faults] = message?.split('\n') ?? []
  const exhausted = label === 'All model attempts failed'
  const ofRequest = textAt('request_id') ?? requestId
  const failedChat = exhausted || label === 'Provider rejected the request'
  const otherwise = status < 500 ? EXIT.usage : EXIT.error
  return new CliError(
    exhausted ? EXIT.upstream : (EXIT_OF_STATUS[status] ?? otherwise),
    `${text ?? `the gateway answered ${status}`}${label === undefined ? '' : ` (${label})`}`,
    {
      code: label ?? `HTTP_${status}`,
      httpStatus: status,
      requestId: ofRequest,
      retryable: (status === 429 || status >= 500) && !needOperator(findAtPath(body, 'attempts')),
      retryAfterSeconds: status === 429 ? secondsIn(headers['retry-after']) : undefined,
      answer: raw,
      hints: [
        ...faults,
        ...hintsFor(status, body, headers, `${label} ${text}`),
        ...(failedChat ? logHint(ofRequest) : []),
      ],
    },
  )
}

/** The gateway sends `Retry-After` as a number of seconds (RFC 9110, section 10.2.3). */
const secondsIn = (header: string | undefined): number | undefined =>
  header !== undefined && /^\d+$/.test(header) ? Number(header) : undefined

/** Parses a body as JSON. Returns undefined if it is not JSON. */
export function parseBody(raw: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(raw).toString())
  } catch {
    // A proxy may send an HTML page.
    return undefined
  }
}

function hintsFor(status: number, body: unknown, headers: IncomingHttpHeaders, text: string): string[] {
  const attempts = findAtPath(body, 'attempts')
  if (Array.isArray(attempts) && attempts.length > 0) return attemptHints(attempts)
  if (status === 401) return ['Sign in again:      aigw login', 'Where is the key?   aigw profiles list']
  const mayOnlyRead = status === 403 && text.includes('may only read the index')
  if (mayOnlyRead) return ['Let the key write:  aigw keys update KEY --index-access write']
  // The gateway sends the same response if the index does not exist and if this key is not allowed to use it.
  const isAboutIndex = (status === 403 || status === 404) && /\bindex\b/i.test(text)
  if (isAboutIndex) return ['To list the indexes that this key may use, run: aigw indexes list']
  // Guards and policies record incidents. Only administrators are allowed to read incidents.
  const isInIncidents = status === 403 && typeof findAtPath(body, 'trace_id') === 'string'
  if (isInIncidents) return [`Its incidents:      aigw incidents list --request ${findAtPath(body, 'request_id')}`]
  if (status === 403) return ['What may this key do?  aigw whoami']
  if (text.startsWith('WEBHOOK_DISABLED ')) return ['Enable it first:    aigw webhooks enable ID']
  if (status === 429) {
    const reset = findAtPath(body, 'reset_time')
    const seconds = findAtPath(body, 'error.retryAfter') ?? headers['retry-after']
    if (typeof reset === 'string') return [`Try again after ${reset}.`]
    return seconds === undefined ? ['Try again later.'] : [`Try again in ${seconds} seconds.`]
  }
  const field = findAtPath(body, 'error.details.field')
  if (typeof field === 'string') return [`Field:  ${field}`]
  return status >= 500 ? ["See the gateway's log for the request id."] : []
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

/**
 * Returns the error for a URL with the wrong scheme: http for a server that uses TLS, or https for a server without
 * TLS.
 */
function wrongScheme(baseUrl: string, error: unknown, code: string): CliError | undefined {
  const isPlain = /wrong version number|packet length too long|record layer/i.test(
    error instanceof Error ? error.message : '',
  )
  if (!isPlain && !code.startsWith('HPE_')) return undefined
  const reason = isPlain ? 'it does not speak TLS' : 'it does not speak HTTP'
  const other = isPlain ? baseUrl.replace(/^https:/, 'http:') : baseUrl.replace(/^http:/, 'https:')
  return new CliError(EXIT.unreachable, `cannot talk to ${baseUrl} (${reason})`, {
    code: 'WRONG_SCHEME',
    hints: [`Perhaps:  --base-url ${other}`],
    cause: error,
  })
}

/**
 * Returns the error for a request that got no response. A refused connection is always retryable. After a broken
 * connection, a retry is allowed only if the request is repeatable.
 */
export function unreachable(baseUrl: string, error: unknown, { repeatable }: { repeatable: boolean }): CliError {
  const code = (isErrno(error) ? error.code : undefined) ?? 'unknown'
  const scheme = wrongScheme(baseUrl, error, code)
  if (scheme !== undefined) return scheme
  const reason = REASONS[code] ?? (error instanceof Error && error.message !== '' ? error.message : code)
  const hints = isTlsFault(code)
    ? ['Own certificate authority?  set NODE_EXTRA_CA_CERTS=/path/to/ca.pem']
    : [
        'Is it running?   systemctl status aigw, or start one: aigw serve',
        'Other address?   aigw profiles list, or --base-url',
      ]
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

/** Returns the error for a connection that broke during the response. */
export function brokenAnswer(error: unknown, requestId: string | undefined): CliError {
  const options: CliErrorOptions = { code: 'ANSWER_BROKEN', requestId, retryable: true, cause: error }
  return new CliError(EXIT.upstream, 'the connection broke in the middle of the answer', options)
}

/** Returns the error for a response that was still incomplete when its timeout expired. */
export const unfinished = (timeoutMs: number, requestId: string | undefined): CliError =>
  new CliError(EXIT.upstream, `the answer was not complete in time (${timeoutMs / 1000} s)`, {
    code: 'TIMEOUT',
    requestId,
    retryable: true,
    hints: ['Allow more time:  --timeout 2m'],
  })

/** Returns the error for a server that is not a gateway or is incompatible with this client. */
export const notAGateway = (exitCode: number, message: string, options: CliErrorOptions): CliError =>
  new CliError(exitCode, message, {
    code: 'NOT_A_GATEWAY',
    hints: ['Is this the address of an aigw gateway?  aigw profiles list'],
    ...options,
  })

/** Returns the error for a redirect. Following the redirect could send the key to another host. */
export function redirected(baseUrl: string, location: string | undefined): CliError {
  const target = location === undefined ? '' : ` to ${location}`
  return new CliError(EXIT.error, `${baseUrl} redirects${target}; redirects are not followed`, {
    code: 'REDIRECTED',
    hints: ['If that is your gateway, use its address:  --base-url URL'],
  })
}
