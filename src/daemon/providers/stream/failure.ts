import type { IncomingHttpHeaders } from 'node:http'
import { type FailureReason, ProviderError } from '../provider.ts'
import { limitResetSeconds, retryAfterSeconds, retryInfoSeconds } from './retry-after.ts'

/** What providers tell of an error, whatever their shape: all of it is for our decisions, only the code is shown. */
type ErrorDetails = {
  code: string | undefined
  status: number | undefined
  words: string
  retryAfterSeconds: number | undefined
}

const OUR_FAULT = new Set([401, 402, 403, 404])
/** What some answer with 400 although the caller cannot mend it: our key, our place, our credit, our signature. */
const OUR_SETTING =
  /api_key_invalid|api key (not valid|expired)|failed_precondition|credit balance is too low|incompletesignature|notauthorized|requestexpired/
const MAY_BE_THE_PROMPT = new Set([400, 403, 413, 422])
const CONTEXT_LENGTH =
  /context.?(length|window|size|limit)|too many tokens|(prompt|input) is too long|maximum.{0,20}tokens|input tokens exceed/
const CONTENT_FILTER =
  /content.?(filter|policy|management)|responsibleaipolicy|data_inspection_failed|moderation|safety system|flagged/
const RATE_LIMIT = /rate.?limit|too.?many.?requests|throttl|insufficient_quota|resource_exhausted/
const BAD_REQUEST = /invalid.?request|bad.?request|unsupported|validation/
const SHOWN_CODE = /^[\w.-]{1,64}$/

/** The failure that a status other than 200 stands for (named-endpoints §6, architecture §9). */
export function statusError(status: number, headers: IncomingHttpHeaders, body: string, nowMs: number): ProviderError {
  const details = errorDetails(parseJson(body), headers['x-amzn-errortype'])
  // These headers come with every answer, so they tell a wait only where a limit was the reason.
  const resetSeconds = status === 429 ? limitResetSeconds(headers, nowMs) : undefined
  return new ProviderError(statusReason(status, details), `The provider answered ${status}${shown(details.code)}.`, {
    upstreamStatus: status,
    retryAfterSeconds: retryAfterSeconds(headers, nowMs) ?? details.retryAfterSeconds ?? resetSeconds,
    // A redirect is no answer of a model API either; and a used-up quota does not come back by itself.
    alarm: isOurFault(status, details) || status < 400 || details.code === 'insufficient_quota',
  })
}

/** The failure that an error object inside a 200 stands for. Without a known code it is the provider's own. */
export function reportedError(error: unknown): ProviderError {
  const details = errorDetails({ error })
  const { status, words } = details
  const reason =
    status !== undefined && status >= 400 && status < 600 ? statusReason(status, details) : wordsReason(words)
  return new ProviderError(reason, `The provider reported an error in its answer${shown(details.code)}.`, {
    retryAfterSeconds: details.retryAfterSeconds,
    alarm: status !== undefined && isOurFault(status, details),
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

const isOurFault = (status: number, { words }: ErrorDetails) =>
  OUR_FAULT.has(status) || (status === 400 && OUR_SETTING.test(words))

function statusReason(status: number, details: ErrorDetails): FailureReason {
  const { words } = details
  if (MAY_BE_THE_PROMPT.has(status)) {
    if (status !== 403 && CONTEXT_LENGTH.test(words)) return 'context_length'
    if (CONTENT_FILTER.test(words)) return 'content_filter'
  }
  if (status === 429 || details.code === 'ServiceQuotaExceededException') return 'rate_limit'
  if (status === 408) return 'timeout'
  // 424 is of a model that failed behind the provider.
  if (isOurFault(status, details) || status >= 500 || status === 424 || status < 400) return 'server_error'
  return 'bad_request'
}

function wordsReason(words: string): FailureReason {
  if (RATE_LIMIT.test(words)) return 'rate_limit'
  if (CONTEXT_LENGTH.test(words)) return 'context_length'
  if (CONTENT_FILTER.test(words)) return 'content_filter'
  return BAD_REQUEST.test(words) ? 'bad_request' : 'server_error'
}

/**
 * Reads `{error: {code, type, status, message, innererror, metadata}}`, `{error: "…"}`, the same bare, or in a list, and the
 * header in which AWS names the error, as in `ThrottlingException:http://…`.
 */
function errorDetails(body: unknown, errorType?: string | string[]): ErrorDetails {
  const first: unknown = Array.isArray(body) ? body[0] : body
  const outer = isObject(first) ? first : {}
  const error = isObject(outer.error) ? outer.error : typeof outer.error === 'string' ? { message: outer.error } : outer
  const inner = isObject(error.innererror) ? error.innererror.code : undefined
  const reasons = isObject(error.metadata) && Array.isArray(error.metadata.reasons) ? 'flagged' : undefined
  const names = [error.code, error.type, error.status, String(errorType ?? '').split(':')[0]]
  const words = [...names, error.message, error.detail, inner, reasons].filter((word) => typeof word === 'string')
  return {
    code: names.filter((name) => typeof name === 'string').find((name) => name !== '' && !/^\d+$/.test(name)),
    status: names.map(Number).find((name) => Number.isInteger(name) && name >= 100 && name < 600),
    words: words.join(' ').toLowerCase(),
    retryAfterSeconds: retryInfoSeconds(error.details),
  }
}

const shown = (code: string | undefined) => (code !== undefined && SHOWN_CODE.test(code) ? ` (${code})` : '')

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
