import type { IncomingHttpHeaders } from 'node:http'
import { isObject } from '../../json.ts'
import { type FailureReason, isOperatorReason, type OperatorReason, ProviderError } from '../../provider.ts'
import { limitResetSeconds, retryAfterSeconds, retryInfoSeconds } from './retry-after.ts'

/** What providers tell of an error, whatever their shape: all of it is for our decisions, only the code is shown. */
type ErrorDetails = {
  code: string | undefined
  status: number | undefined
  /** Code, type, Google's reason and the like, lower case. The provider chooses them from a list of its own. */
  names: string
  /** The message, lower case. It may quote the request, so its words are those of the caller. */
  message: string
  /** Names and message. */
  words: string
  /** The quotas that Google says are used up, lower case. */
  quotaIds: string
  retryAfterSeconds: number | undefined
}

/** Statuses that may report a fault of our key, model name or quota, if the body says so. */
const OPERATOR_STATUSES = new Set([400, 401, 402, 403, 404, 410, 412, 429])
const QUOTA_NAMES =
  /insufficient_quota|exceeded_current_quota|servicequotaexceeded|allocationquota\.freetieronly|credit_limit|payment_required|billing_(error|disabled|not_active|hard_limit)|arrearage/
const UNKNOWN_MODEL_NAMES =
  /model.?not.?(found|exist|available|supported)|deploymentnotfound|(invalid|unknown)_model|decommissioned/
/** Our key, account, signature or region, as some report it with 400. */
const AUTH_400_NAMES =
  /api_key_invalid|invalid.?api.?key|failed_precondition|incompletesignature|notauthorized|requestexpired/
/*
 * Sentences of providers that name nothing. A message can quote the request anywhere but in the sentence that begins it, so
 * each pattern is of the beginning: a caller's words must not alarm the operator.
 */
const QUOTA_SENTENCES =
  /^(your credit balance is too low|you have reached your specified api usage limits|key limit exceeded|insufficient balance|out of call volume quota|you have (run out of credits|exceeded your monthly included credits)|your newly created team doesn.t have any credits|your team \S+ has either used all available credits|account \S+ is suspended, possibly due to reaching the monthly spending limit)/
const UNKNOWN_MODEL_SENTENCES =
  /^(model not exist|unknown model,|invalid model id|the provided model identifier is invalid|\S+ is not a valid model id$|invocation of model id \S+ with on-demand throughput isn.t supported)/
const AUTH_SENTENCES =
  /^(incorrect api key|invalid api key|api key (not valid|expired)|(this|your) (organization|account) has been disabled)/
/**
 * Credit, spending limit or a quota of a day or more, as a 429 tells it; a 429 quotes no request. "Exceeded your current
 * quota" is missing: Google says so each minute.
 */
const QUOTA_WORDS =
  /insufficient balance|credit balance is too low|used all available credits|monthly included credits|(run out of|have any) credits|spending limit|specified api usage limits|too many (tokens|requests) per day|free-models-per-day|calls \/ month/
/** A 403 or 404 that is about what the request names or needs, not about our account or the model. */
const NAMED_BY_THE_REQUEST =
  /^((file|item|response|previous response|conversation|container|vector store)( .{1,200})? not found|no such file|the file \S+ is not in an active state|you do not have permission to access the file |no endpoints found that (support|can handle) )/
/** The names of errors inside a 200, where no status says it. */
const AUTH_NAMES =
  /authentication|permission.?(error|denied)|unauthorized|invalid_api_key|accessdenied|unrecognizedclient|expiredtoken/
/** The only statuses that are of the request; any other of their kind is of what we or the provider have made of it. */
const THE_REQUEST = new Set([400, 413, 415, 422])
/** What a 403 says of the prompt; it speaks of our account otherwise, which may be under moderation itself. */
const FORBIDDEN_CONTENT = /usage guidelines|safety_check/
const CONTEXT_LENGTH =
  /context.?(length|window|size|limit)|too many tokens|(prompt|input) is too long|maximum.{0,20}tokens|input tokens exceed|(prompt|input|model|max) length|token limit|max_new_tokens/
const CONTENT_FILTER =
  /content.?(filter|policy|management)|responsibleaipolicy|data_inspection_failed|moderation|safety system|flagged|usage guidelines|safety_check|content exists risk/
const RATE_LIMIT = /rate.?limit|too.?many.?requests|throttl|resource_exhausted/
/** As some answer to too many requests with 400. */
const LIMIT_EXCEEDED = /^(rate.?limit.{0,20}(exceeded|reached)|too many requests)/
const NOT_FOUND = /not_found_error|resourcenotfound/
const PROVIDER_FAULT = /server_?error|internal|api_error|overloaded|unavailable|timeout/
/** The model wrote what its server could not take: another one may do better. */
const MODEL_FAILED = /tool_use_failed|json_validate_failed/
const BAD_REQUEST = /invalid.?request|bad.?request|unsupported|validation/
const SHOWN_CODE = /^[\w.-]{1,64}$/

/** The failure that a status other than 200 stands for (named-endpoints §6, architecture §9). */
export function statusError(status: number, headers: IncomingHttpHeaders, body: string, nowMs: number): ProviderError {
  const details = errorDetails(parseJson(body), headers['x-amzn-errortype'], nowMs)
  const reason = statusReason(status, details)
  // These headers come with every answer, so they tell a wait only where a limit was the reason.
  const resetSeconds = status === 429 ? limitResetSeconds(headers, nowMs) : undefined
  // Google's RetryInfo names the minute also where the quota of the day is used up.
  const limitSeconds = isOperatorReason(reason) ? undefined : (details.retryAfterSeconds ?? resetSeconds)
  return new ProviderError(reason, `The provider answered ${status}${shown(details.code)}.`, {
    upstreamStatus: status,
    retryAfterSeconds: retryAfterSeconds(headers, nowMs) ?? limitSeconds,
    // A redirect is no answer of a model API: the configured address is wrong.
    alarm: isOperatorReason(reason) || status < 400,
  })
}

/** The failure that an error object inside a 200 stands for. Without a known code it is the provider's own. */
export function reportedError(error: unknown): ProviderError {
  const details = errorDetails({ error })
  const { status } = details
  const reason =
    status !== undefined && status >= 400 && status < 600 ? statusReason(status, details) : wordsReason(details)
  return new ProviderError(reason, `The provider reported an error in its answer${shown(details.code)}.`, {
    retryAfterSeconds: isOperatorReason(reason) ? undefined : details.retryAfterSeconds,
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

function statusReason(status: number, details: ErrorDetails): FailureReason {
  const { names, message, words, code = '' } = details
  if (MODEL_FAILED.test(code)) return 'server_error'
  // Groq answers 413 where the tokens of one request are over the limit of a minute, some of AWS 400 to too many requests.
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
  // Some tell with 401, 403 or 429 that the credit is used up.
  if (status === 402 || QUOTA_NAMES.test(names) || QUOTA_SENTENCES.test(message)) return 'quota_exhausted'
  if (status === 429) return QUOTA_WORDS.test(words) || quotaIds.includes('perday') ? 'quota_exhausted' : undefined
  if (status === 401) return 'auth_failed'
  if (status === 404 || status === 410) return 'model_not_found'
  if (status !== 400 && status !== 403) return undefined
  if (UNKNOWN_MODEL_NAMES.test(names) || UNKNOWN_MODEL_SENTENCES.test(message)) return 'model_not_found'
  return status === 403 || AUTH_400_NAMES.test(names) || AUTH_SENTENCES.test(message) ? 'auth_failed' : undefined
}

/** Names before words: a message may speak of anything. */
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
 * Reads `{error: {code, type, status, message, innererror, metadata}}`, `{error: "…"}`, the same bare, or in a list, and the
 * header in which AWS names the error, as in `ThrottlingException:http://…`.
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
  const message = joined([error.message, error.detail])
  return {
    code: names.filter((name) => typeof name === 'string').find((name) => name !== '' && !/^\d+$/.test(name)),
    status: names.map(Number).find((name) => Number.isInteger(name) && name >= 100 && name < 600),
    names: all,
    message,
    words: `${all} ${message}`,
    quotaIds: joined(google.quotaIds),
    retryAfterSeconds: retryInfoSeconds(error.details) ?? passedOnSeconds(error.metadata, nowMs),
  }
}

/** What google.rpc.ErrorInfo and google.rpc.QuotaFailure name among the details of an error. */
function googleDetails(details: unknown): { reasons: unknown[]; quotaIds: unknown[] } {
  const known = Array.isArray(details) ? details.filter(isObject) : []
  const violations = known.flatMap(({ violations: broken }) => (Array.isArray(broken) ? broken.filter(isObject) : []))
  return { reasons: known.map(({ reason }) => reason), quotaIds: violations.map(({ quotaId }) => quotaId) }
}

/** OpenRouter puts headers of the provider behind it into the error. */
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

const shown = (code: string | undefined) => (code !== undefined && SHOWN_CODE.test(code) ? ` (${code})` : '')

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
