import { ERRORS, GatewayError } from '../../shared/errors.ts'
import type { ErrorShape, Reply } from './route.ts'

/**
 * Turns an error into the body the route documents (spec: Errors). The one place where that happens.
 * @param error a GatewayError; anything else is a bug, is handed to `onBug` and answered as a bare 500.
 */
export function toErrorReply(
  error: unknown,
  shape: ErrorShape,
  requestId: string,
  onBug: (error: unknown) => void,
): Reply {
  let known: GatewayError
  if (error instanceof GatewayError) known = error
  else {
    onBug(error)
    known = new GatewayError('INTERNAL_ERROR', 'The gateway failed to handle this request. The details are in its log.')
  }
  const { status, shape: ownShape = shape }: { status: number; shape?: ErrorShape } = ERRORS[known.code]
  const body = ownShape === 'structured' ? structuredBody(known, requestId) : flatBody(known, requestId)
  return { status, body, headers: errorHeaders(known, status) }
}

function errorHeaders(error: GatewayError, status: number): Record<string, string> {
  const headers: Record<string, string> = {}
  if (error.retryAfterSeconds !== undefined) headers['retry-after'] = String(error.retryAfterSeconds)
  if (error.allow !== undefined) headers.allow = error.allow
  if (status === 401) headers['www-authenticate'] = 'Bearer'
  return headers
}

function structuredBody(error: GatewayError, requestId: string): object {
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

function flatBody(error: GatewayError, requestId: string): object {
  return {
    success: false,
    error: flatLabel(error),
    message: error.message,
    request_id: requestId,
    ...error.extra,
  }
}

function flatLabel({ code, details }: GatewayError): string {
  const topField = details?.field.split('.', 1)[0]
  return code === 'VALIDATION_ERROR' && topField ? `Invalid ${topField}` : ERRORS[code].label
}

/** What was sent is shown back, but never more of it than a person would read. */
function shownValue(value: unknown): unknown {
  if (value === undefined) return null
  if (typeof value === 'string') return value.length > 200 ? `${value.slice(0, 200)}…` : value
  if (typeof value !== 'object') return value
  return Array.isArray(value) ? `[array of ${value.length}]` : '[object]'
}
