import type { IncomingHttpHeaders } from 'node:http'
import { type FailureReason, ProviderError } from '../provider.ts'

/** What providers tell of an error, whatever their shape: all of it is for our decisions, only the code is shown. */
type ErrorDetails = { code: string | undefined; status: number | undefined; words: string }

const OUR_FAULT = new Set([401, 402, 403, 404])
const MAY_BE_THE_PROMPT = new Set([400, 403, 413, 422])
const CONTEXT_LENGTH = /context.?(length|window|size)|too many tokens|prompt is too long|maximum.{0,20}tokens/
const CONTENT_FILTER =
  /content.?(filter|policy|management)|responsibleaipolicy|data_inspection_failed|moderation|safety system|flagged/
const RATE_LIMIT = /rate.?limit|too.?many.?requests|throttl|insufficient_quota|resource_exhausted/
const BAD_REQUEST = /invalid.?request|bad.?request|unsupported|validation/
const SHOWN_CODE = /^[\w.-]{1,64}$/

/** The failure that a status other than 200 stands for (named-endpoints §6, architecture §9). */
export function statusError(status: number, headers: IncomingHttpHeaders, body: string, nowMs: number): ProviderError {
  const details = errorDetails(parseJson(body))
  return new ProviderError(statusReason(status, details), `The provider answered ${status}${shown(details.code)}.`, {
    upstreamStatus: status,
    retryAfterSeconds: retryAfterSeconds(headers, nowMs),
    // A redirect is no answer of a model API either; and a used-up quota does not come back by itself.
    alarm: OUR_FAULT.has(status) || status < 400 || details.code === 'insufficient_quota',
  })
}

/** The failure that an error object inside a 200 stands for. Without a known code it is the provider's own. */
export function reportedError(error: unknown): ProviderError {
  const details = errorDetails({ error })
  const { status, words } = details
  const reason =
    status !== undefined && status >= 400 && status < 600 ? statusReason(status, details) : wordsReason(words)
  return new ProviderError(reason, `The provider reported an error in its answer${shown(details.code)}.`, {
    alarm: status !== undefined && OUR_FAULT.has(status),
  })
}

/** The failure of a connection; `answering` when the answer had begun, which then is truncated. */
export function connectionError(cause: Error, answering: boolean): ProviderError {
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : undefined
  const what = answering ? 'The connection to the provider broke' : 'The provider could not be reached'
  return new ProviderError('connection_error', `${what}${shown(code)}.`, {
    cause,
    outcome: answering ? 'truncated' : 'error',
  })
}

/** The end of an answer that lacks its finish reason, also when the connection was closed in order. */
export const truncatedError = () =>
  new ProviderError('connection_error', 'The answer of the provider ended in the middle.', { outcome: 'truncated' })

/** An answer that cannot be read; what it said is unknown, so it is never taken for less. */
export const unreadableError = (what: string, cause?: unknown) =>
  new ProviderError('server_error', `The provider sent ${what}.`, { cause })

export const abortedError = (signal: AbortSignal) =>
  new ProviderError('aborted', 'The call was given up because the caller left.', { cause: signal.reason })

/** Retry-After as seconds or as any HTTP date (RFC 9110 §10.2.3, §5.6.7), or retry-after-ms; rounded up, never negative. */
export function retryAfterSeconds(headers: IncomingHttpHeaders, nowMs: number): number | undefined {
  const milliseconds = single(headers['retry-after-ms'])
  if (milliseconds && /^\d+(\.\d+)?$/.test(milliseconds)) return Math.ceil(Number(milliseconds) / 1000)
  const value = single(headers['retry-after'])
  if (!value) return undefined
  if (/^\d+(\.\d+)?$/.test(value)) return Math.ceil(Number(value))
  // The asctime form has no zone although it means UTC.
  const date = Date.parse(/^[A-Za-z]{3},? .*\d$/.test(value) ? `${value} GMT` : value)
  return Number.isNaN(date) || !/^[A-Za-z]{3}/.test(value) ? undefined : Math.max(0, Math.ceil((date - nowMs) / 1000))
}

function statusReason(status: number, { words }: ErrorDetails): FailureReason {
  if (MAY_BE_THE_PROMPT.has(status)) {
    if (status !== 403 && CONTEXT_LENGTH.test(words)) return 'context_length'
    if (CONTENT_FILTER.test(words)) return 'content_filter'
  }
  if (status === 429) return 'rate_limit'
  if (status === 408) return 'timeout'
  if (OUR_FAULT.has(status) || status >= 500 || status < 400) return 'server_error'
  return 'bad_request'
}

function wordsReason(words: string): FailureReason {
  if (RATE_LIMIT.test(words)) return 'rate_limit'
  if (CONTEXT_LENGTH.test(words)) return 'context_length'
  if (CONTENT_FILTER.test(words)) return 'content_filter'
  return BAD_REQUEST.test(words) ? 'bad_request' : 'server_error'
}

/** Reads `{error: {code, type, status, message, innererror, metadata}}`, `{error: "…"}` and the same members bare. */
function errorDetails(body: unknown): ErrorDetails {
  const outer = isObject(body) ? body : {}
  const error = isObject(outer.error) ? outer.error : typeof outer.error === 'string' ? { message: outer.error } : outer
  const inner = isObject(error.innererror) ? error.innererror.code : undefined
  const reasons = isObject(error.metadata) && Array.isArray(error.metadata.reasons) ? 'flagged' : undefined
  const names = [error.code, error.type, error.status]
  const words = [...names, error.message, error.detail, inner, reasons].filter((word) => typeof word === 'string')
  return {
    code: names.filter((name) => typeof name === 'string').find((name) => name !== '' && !/^\d+$/.test(name)),
    status: names.map(Number).find((name) => Number.isInteger(name) && name >= 100 && name < 600),
    words: words.join(' ').toLowerCase(),
  }
}

const shown = (code: string | undefined) => (code !== undefined && SHOWN_CODE.test(code) ? ` (${code})` : '')

const single = (value: string | string[] | undefined) => (Array.isArray(value) ? value[0] : value)?.trim()

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
