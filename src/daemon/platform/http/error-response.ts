import { compatCodeOf, ERRORS, GatewayError } from '../../../shared/errors.ts'
import type { GoogleError as GoogleErrorBody } from '../../../shared/wire/gemini.ts'
import type { MessagesError } from '../../../shared/wire/messages.ts'
import type { OpenAiError } from '../../../shared/wire/openai.ts'
import { isStoreFailure } from '../db/store-failure.ts'
import { googleError } from './google-error.ts'
import { RequestAborted } from './request-aborted.ts'
import type { ErrorShape, Reply } from './route.ts'

/** The request id, and the evidence id if the request leaves evidence. */
export type RequestIds = { requestId: string; bundleId?: string | undefined }

/**
 * Converts an error to the body that the route documents. The same error and ids always produce the same bytes.
 * @param error a GatewayError, RequestAborted after a shutdown, or a failure of the store. Any other error is a bug: it
 * is passed to `onBug`, and the response is a bare 500.
 */
export function toErrorReply(
  error: unknown,
  shape: ErrorShape,
  ids: RequestIds,
  onBug: (error: unknown) => void,
): Reply {
  let known: GatewayError
  if (error instanceof GatewayError) known = error
  else if (error instanceof RequestAborted) known = shuttingDown()
  else if (isStoreFailure(error)) known = storeUnavailable()
  else {
    onBug(error)
    known = new GatewayError(
      'INTERNAL_ERROR',
      'The gateway failed to handle this request. Its log contains the details.',
    )
  }
  const { status, shape: ownShape = shape }: { status: number; shape?: ErrorShape } = ERRORS[known.code]
  return { status, body: BODIES[ownShape](known, ids), headers: errorHeaders(known, status) }
}

export const shuttingDown = () =>
  new GatewayError('OVERLOADED', 'The gateway is shutting down. Retry in a moment.', { retryAfterSeconds: 2 })

const storeUnavailable = () =>
  new GatewayError('OVERLOADED', 'The store of the gateway is unavailable. Retry in a moment.', {
    retryAfterSeconds: 1,
  })

const BODIES: Record<ErrorShape, (error: GatewayError, ids: RequestIds) => object> = {
  flat: flatBody,
  structured: structuredBody,
  openai: openAiBody,
  anthropic: anthropicBody,
  google: googleBody,
}

/** OpenAI's and Anthropic's clients obey this header, instead of deciding by the status. */
const SHOULD_RETRY_HEADER = 'x-should-retry'

function errorHeaders(error: GatewayError, status: number): Record<string, string> {
  const headers: Record<string, string> = { [SHOULD_RETRY_HEADER]: String(error.retryable) }
  if (error.retryAfterSeconds !== undefined) headers['retry-after'] = String(error.retryAfterSeconds)
  if (error.allow !== undefined) headers.allow = error.allow
  if (status === 401) headers['www-authenticate'] = 'Bearer'
  return headers
}

function structuredBody(error: GatewayError, { requestId }: RequestIds): object {
  const { code, message, details, retryAfterSeconds } = error
  return {
    success: false,
    error: {
      code,
      message,
      ...(details && { details: { field: details.field, value: shownValue(details.value) } }),
      ...(retryAfterSeconds !== undefined && { retryAfter: retryAfterSeconds }),
    },
    request_id: requestId,
  }
}

function flatBody(error: GatewayError, { requestId, bundleId }: RequestIds): object {
  return {
    success: false,
    error: flatLabel(error),
    message: error.message,
    request_id: requestId,
    ...(bundleId !== undefined && { bundle_id: bundleId }),
    ...error.extra,
  }
}

function openAiBody(error: GatewayError, ids: RequestIds): object {
  const { code, message, extra } = error
  return {
    success: false,
    error: { message, type: openAiErrorType(error), code: compatCodeOf(code, extra?.reason) },
    ...commonMembers(error, ids),
  } satisfies OpenAiError
}

/** The members that stand beside `error` in the bodies of the compatibility surfaces. */
const commonMembers = ({ retryable, extra }: GatewayError, { requestId, bundleId }: RequestIds) => ({
  retryable,
  request_id: requestId,
  ...(bundleId !== undefined && { bundle_id: bundleId }),
  ...extra,
})

function openAiErrorType({ code }: GatewayError): string {
  const { status } = ERRORS[code]
  if (compatCodeOf(code) === 'insufficient_quota') return 'insufficient_quota'
  return OPENAI_TYPES.get(status) ?? (status < 500 ? 'invalid_request_error' : 'server_error')
}

const OPENAI_TYPES = new Map<number, string>([
  [401, 'authentication_error'],
  [403, 'permission_error'],
  [429, 'rate_limit_error'],
])

function anthropicBody(error: GatewayError, ids: RequestIds): object {
  const { code, message, extra } = error
  const { status } = ERRORS[code]
  return {
    type: 'error',
    success: false,
    error: {
      type: ANTHROPIC_TYPES.get(status) ?? (status < 500 ? 'invalid_request_error' : 'api_error'),
      message,
      code: compatCodeOf(code, extra?.reason),
      // Anthropic's client checks this code, and then sends the whole conversation again.
      ...(code === 'THREAD_NOT_FOUND' && { details: { error_code: 'thread_not_found' } }),
    },
    ...commonMembers(error, ids),
  } satisfies MessagesError
}

const ANTHROPIC_TYPES = new Map<number, string>([
  [401, 'authentication_error'],
  [403, 'permission_error'],
  [404, 'not_found_error'],
  [408, 'timeout_error'],
  [413, 'request_too_large'],
  [429, 'rate_limit_error'],
  [503, 'overloaded_error'],
])

function googleBody(error: GatewayError, ids: RequestIds): object {
  const { code, message, retryAfterSeconds } = error
  return {
    success: false,
    error: googleError({ status: ERRORS[code].status, message, reason: code, retryAfterSeconds }),
    ...commonMembers(error, ids),
  } satisfies GoogleErrorBody
}

/** The property `error` of a flat body. */
export function flatLabel({ code, details }: GatewayError): string {
  const topField = details?.field.split('.', 1)[0]
  return code === 'VALIDATION_ERROR' && topField ? `Invalid ${topField}` : ERRORS[code].label
}

/** The invalid value as the error shows it, shortened to a readable length. */
function shownValue(value: unknown): unknown {
  if (value === undefined) return null
  if (typeof value === 'string') return value.length > 200 ? `${value.slice(0, 200)}…` : value
  if (typeof value !== 'object' || value === null) return value
  return Array.isArray(value) ? `[array of ${value.length}]` : '[object]'
}
