import type { IncomingHttpHeaders } from 'node:http'
import { PROVIDER_MESSAGE_RECEIVED_CHARS } from '../../../../shared/spec-limits.ts'
import { isObject } from '../../../platform/text/json.ts'
import { type FailureReason, isOperatorReason, type OperatorReason, ProviderError } from '../../provider.ts'
import { limitResetSeconds, retryAfterSeconds, retryInfoSeconds } from './retry-after.ts'

/**
 * The details of a provider's error, independent of the provider's format. Callers receive only the error code. The
 * other details classify the error, and administrators read the message after it was cleaned.
 */
type ErrorDetails = {
  code: string | undefined
  status: number | undefined
  /** Names from the provider's fixed list of errors, in lower case: code, type, Google's reason and similar. */
  names: string
  /** The message, in lower case. It may quote the request, so it may contain the caller's words. */
  message: string
  /** Names and message. */
  words: string
  /** The message as received. */
  said: string | undefined
  /** The exhausted quotas that Google names, in lower case. */
  quotaIds: string
  retryAfterSeconds: number | undefined
}

/** For these statuses, the body shows whether the cause is our key, the model name or a quota. */
const OPERATOR_STATUSES = new Set([400, 401, 402, 403, 404, 410, 412, 429])
const QUOTA_NAMES =
  /insufficient_quota|exceeded_current_quota|servicequotaexceeded|allocationquota\.freetieronly|credit_limit|payment_required|billing_(error|disabled|not_active|hard_limit)|arrearage/
const UNKNOWN_MODEL_NAMES =
  /model.?not.?(found|exist|available|supported)|deploymentnotfound|(invalid|unknown)_model|decommissioned/
/**
 * Error names for problems with our key, account, signature or region. Some providers report these errors with status
 * 400.
 */
const AUTH_400_NAMES =
  /api_key_invalid|invalid.?api.?key|failed_precondition|incompletesignature|notauthorized|requestexpired/
/**
 * Message patterns for providers that send no error name. Each pattern matches only the beginning of a message: the
 * rest may quote the request, and a caller's words must not alert the operator.
 */
const QUOTA_SENTENCES =
  /^(your credit balance is too low|you have reached your specified api usage limits|key limit exceeded|insufficient balance|out of call volume quota|you have (run out of credits|exceeded your monthly included credits)|your newly created team doesn.t have any credits|your team \S+ has either used all available credits|account \S+ is suspended, possibly due to reaching the monthly spending limit)/
const UNKNOWN_MODEL_SENTENCES =
  /^(model not exist|unknown model,|invalid model id|the provided model identifier is invalid|\S+ is not a valid model id$|invocation of model id \S+ with on-demand throughput isn.t supported)/
const AUTH_SENTENCES =
  /^(incorrect api key|invalid api key|api key (not valid|expired)|(this|your) (organization|account) has been disabled)/
/**
 * Message patterns for a 429 response that concerns credit, a spending limit or a quota of a day or more. These
 * patterns match anywhere in the message, because a 429 response never quotes the request. "Exceeded your current
 * quota" is not listed: Google also sends it for limits per minute.
 */
const QUOTA_WORDS =
  /insufficient balance|credit balance is too low|used all available credits|monthly included credits|(run out of|have any) credits|spending limit|specified api usage limits|too many (tokens|requests) per day|free-models-per-day|calls \/ month/
/** Matches a 403 or 404 that concerns a part of the request, not our account or the model. */
const NAMED_BY_THE_REQUEST =
  /^((file|item|response|previous response|conversation|container|vector store)( .{1,200})? not found|no such file|the file \S+ is not in an active state|you do not have permission to access the file |no endpoints found that (support|can handle) )/
/** Names of authentication errors that are sent with status 200, so the status does not show the error. */
const AUTH_NAMES =
  /authentication|permission.?(error|denied)|unauthorized|invalid_api_key|accessdenied|unrecognizedclient|expiredtoken/
/**
 * The statuses that indicate a fault in the caller's request. All other 4xx statuses indicate a fault of the gateway or
 * the provider.
 */
const THE_REQUEST = new Set([400, 413, 415, 422])
/**
 * Matches a 403 that concerns the prompt. All other 403 responses concern our account, even if they mention moderation.
 */
const FORBIDDEN_CONTENT = /usage guidelines|safety_check/
const CONTEXT_LENGTH =
  /context.?(length|window|size|limit)|too many tokens|(prompt|input) is too long|maximum.{0,20}tokens|input tokens exceed|(prompt|input|model|max) length|token limit|max_new_tokens/
const CONTENT_FILTER =
  /content.?(filter|policy|management)|responsibleaipolicy|data_inspection_failed|moderation|safety system|flagged|usage guidelines|safety_check|content exists risk/
const RATE_LIMIT = /rate.?limit|too.?many.?requests|throttl|resource_exhausted/
/** Some providers report too many requests with status 400. */
const LIMIT_EXCEEDED = /^(rate.?limit.{0,20}(exceeded|reached)|too many requests)/
const NOT_FOUND = /not_found_error|resourcenotfound/
const PROVIDER_FAULT = /server_?error|internal|api_error|overloaded|unavailable|timeout/
/** The model generated text that its server rejects. Another model may succeed. */
const MODEL_FAILED = /tool_use_failed|json_validate_failed/
const BAD_REQUEST = /invalid.?request|bad.?request|unsupported|validation/
const SHOWN_CODE = /^[\w.-]{1,64}$/

/** Classifies a response with a status other than 200. */
export function statusError(status: number, headers: IncomingHttpHeaders, body: string, nowMs: number): ProviderError {
  const parsed = parseJson(body)
  const details = errorDetails(parsed, headers['x-amzn-errortype'], nowMs)
  const reason = statusReason(status, details)
  // Every response has rate-limit headers, but only the headers of a 429 response specify a wait.
  const resetSeconds = status === 429 ? limitResetSeconds(headers, nowMs) : undefined
  // If the daily quota is exhausted, Google's RetryInfo still contains the wait for the limit per minute.
  const limitSeconds = isOperatorReason(reason) ? undefined : (details.retryAfterSeconds ?? resetSeconds)
  return new ProviderError(reason, `The provider answered ${status}${shown(details.code)}.`, {
    upstreamStatus: status,
    retryAfterSeconds: retryAfterSeconds(headers, nowMs) ?? limitSeconds,
    // A model API never redirects, so the configured address is wrong.
    alarm: isOperatorReason(reason) || status < 400,
    said: parsed === undefined ? plainText(body) : details.said,
  })
}

/**
 * Classifies an error object in a response with status 200. An error without a known code is classified as a provider
 * error.
 */
export function reportedError(error: unknown): ProviderError {
  const details = errorDetails({ error })
  const { status } = details
  const reason =
    status !== undefined && status >= 400 && status < 600 ? statusReason(status, details) : wordsReason(details)
  return new ProviderError(reason, `The provider reported an error in its answer${shown(details.code)}.`, {
    retryAfterSeconds: isOperatorReason(reason) ? undefined : details.retryAfterSeconds,
    said: details.said,
  })
}

/**
 * Classifies a connection failure. `answering` means that the answer had already begun: its outcome is then
 * `truncated`.
 */
export function connectionError(cause: Error, answering: boolean): ProviderError {
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : undefined
  const what = answering ? 'The connection to the provider broke' : 'The provider could not be reached'
  return new ProviderError('connection_error', `${what}${shown(code)}.`, {
    cause,
    outcome: answering ? 'truncated' : 'error',
  })
}

/** Returns the error for an answer that ended without a finish reason, even if the connection was closed cleanly. */
export const truncatedError = () =>
  new ProviderError('connection_error', 'The answer of the provider ended before it was complete.', {
    outcome: 'truncated',
  })

/**
 * Returns the error for an answer that cannot be read. Unreadable content is never skipped, because it may be part of
 * the answer.
 */
export const unreadableError = (what: string, cause?: unknown) =>
  new ProviderError('server_error', `The provider sent ${what}.`, { cause })

export const abortedError = (signal: AbortSignal) =>
  new ProviderError('aborted', 'The call was cancelled because the client disconnected.', { cause: signal.reason })

function statusReason(status: number, details: ErrorDetails): FailureReason {
  const { names, message, words, code = '' } = details
  if (MODEL_FAILED.test(code)) return 'server_error'
  // Groq responds with 413 if a single request exceeds the limit of tokens per minute. Some AWS services report too
  // many requests with status 400.
  if (status === 413 || status === 400) {
    if (/^(rate_limit_exceeded|throttling)/i.test(code) || LIMIT_EXCEEDED.test(message)) return 'rate_limit'
  }
  if (status === 403 && (CONTENT_FILTER.test(names) || FORBIDDEN_CONTENT.test(words))) return 'content_filter'
  const operatorReason = OPERATOR_STATUSES.has(status) ? operatorReasonOf(status, details) : undefined
  if (operatorReason) return NAMED_BY_THE_REQUEST.test(message) ? 'bad_request' : operatorReason
  if (status === 429) return 'rate_limit'
  if (status === 408) return 'timeout'
  if (!THE_REQUEST.has(status)) return 'server_error'
  if (CONTEXT_LENGTH.test(words)) return 'context_length'
  return CONTENT_FILTER.test(words) ? 'content_filter' : 'bad_request'
}

function operatorReasonOf(status: number, details: ErrorDetails): OperatorReason | undefined {
  const { names, message, words, quotaIds } = details
  // Some providers send 401, 403 or 429 when the account's credit is used up.
  if (status === 402 || QUOTA_NAMES.test(names) || QUOTA_SENTENCES.test(message)) return 'quota_exhausted'
  if (status === 429) return QUOTA_WORDS.test(words) || quotaIds.includes('perday') ? 'quota_exhausted' : undefined
  if (status === 401) return 'auth_failed'
  if (status === 404 || status === 410) return 'model_not_found'
  if (status !== 400 && status !== 403) return undefined
  if (UNKNOWN_MODEL_NAMES.test(names) || UNKNOWN_MODEL_SENTENCES.test(message)) return 'model_not_found'
  return status === 403 || AUTH_400_NAMES.test(names) || AUTH_SENTENCES.test(message) ? 'auth_failed' : undefined
}

/** Error names take precedence over the message, because the message may contain any text. */
function wordsReason({ names, message, words, code = '' }: ErrorDetails): FailureReason {
  if (MODEL_FAILED.test(code)) return 'server_error'
  if (NAMED_BY_THE_REQUEST.test(message)) return 'bad_request'
  if (QUOTA_NAMES.test(names)) return 'quota_exhausted'
  if (UNKNOWN_MODEL_NAMES.test(names) || NOT_FOUND.test(names)) return 'model_not_found'
  if (AUTH_NAMES.test(names)) return 'auth_failed'
  const named = limitReason(names)
  if (named) return named
  if (PROVIDER_FAULT.test(names)) return 'server_error'
  return limitReason(words) ?? (BAD_REQUEST.test(names) ? 'bad_request' : 'server_error')
}

function limitReason(words: string): FailureReason | undefined {
  if (RATE_LIMIT.test(words)) return 'rate_limit'
  if (CONTEXT_LENGTH.test(words)) return 'context_length'
  return CONTENT_FILTER.test(words) ? 'content_filter' : undefined
}

/**
 * Extracts the details from `{error: {code, type, status, message, innererror, metadata}}` or `{error: "…"}`. The outer
 * `error` may be missing, and the object may be the first element of a list. `errorType` is the header in which AWS
 * sends the error name, such as `ThrottlingException:http://…`.
 */
function errorDetails(body: unknown, errorType?: string | string[], nowMs = Number.NaN): ErrorDetails {
  const first: unknown = Array.isArray(body) ? body[0] : body
  const outer = isObject(first) ? first : {}
  const error = isObject(outer.error) ? outer.error : typeof outer.error === 'string' ? { message: outer.error } : outer
  const inner = isObject(error.innererror) ? error.innererror.code : undefined
  const reasons = isObject(error.metadata) && Array.isArray(error.metadata.reasons) ? 'flagged' : undefined
  const names = [error.code, error.type, error.status, String(errorType ?? '').split(':')[0]]
  const google = googleDetails(error.details)
  const all = joined([...names, inner, reasons, ...google.reasons])
  const texts = [error.message, error.detail]
  const message = joined(texts)
  // OpenRouter wraps the message of the upstream provider.
  const wrapped = isObject(error.metadata) ? error.metadata.raw : undefined
  return {
    code: names.filter((name) => typeof name === 'string').find((name) => name !== '' && !/^\d+$/.test(name)),
    status: names.map(Number).find((name) => Number.isInteger(name) && name >= 100 && name < 600),
    names: all,
    message,
    words: `${all} ${message}`,
    said: beginningOf([...texts, error.Message, wrapped]),
    quotaIds: joined(google.quotaIds),
    retryAfterSeconds: retryInfoSeconds(error.details) ?? passedOnSeconds(error.metadata, nowMs),
  }
}

/**
 * Returns the reasons and quota ids from google.rpc.ErrorInfo and google.rpc.QuotaFailure in the details of an error.
 */
function googleDetails(details: unknown): { reasons: unknown[]; quotaIds: unknown[] } {
  const known = Array.isArray(details) ? details.filter(isObject) : []
  const violations = known.flatMap(({ violations: broken }) => (Array.isArray(broken) ? broken.filter(isObject) : []))
  return { reasons: known.map(({ reason }) => reason), quotaIds: violations.map(({ quotaId }) => quotaId) }
}

/** Returns the wait from an OpenRouter error: OpenRouter copies headers of the upstream provider into the error. */
function passedOnSeconds(metadata: unknown, nowMs: number): number | undefined {
  const headers = isObject(metadata) ? metadata.headers : undefined
  if (!isObject(headers) || Number.isNaN(nowMs)) return undefined
  const entries = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value)] as const)
  const passedOn = Object.fromEntries(entries)
  return retryAfterSeconds(passedOn, nowMs) ?? limitResetSeconds(passedOn, nowMs)
}

const joined = (words: readonly unknown[]) =>
  words
    .filter((word) => typeof word === 'string')
    .join(' ')
    .trim()
    .toLowerCase()

/** The beginning of the texts, or undefined if there is no text. */
function beginningOf(texts: readonly unknown[]): string | undefined {
  const text = texts.filter((one) => typeof one === 'string').join(' ')
  return text.trim() === '' ? undefined : text.slice(0, PROVIDER_MESSAGE_RECEIVED_CHARS)
}

/** A body that is neither JSON nor a page. */
const plainText = (body: string): string | undefined =>
  body.trimStart().startsWith('<') ? undefined : beginningOf([body])

const shown = (code: string | undefined) => (code !== undefined && SHOWN_CODE.test(code) ? ` (${code})` : '')

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
