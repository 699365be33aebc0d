// The errors of governed requests, as their receipts record them.
import { hash } from 'node:crypto'
import { GatewayError } from '../../../shared/errors.ts'
import { type RequestIds, toErrorReply } from '../../platform/http/error-response.ts'
import { RequestAborted } from '../../platform/http/request-aborted.ts'
import { CLIENT_LEFT, type RequestEnd } from '../../records/evidence/request-entry.ts'
import type { Trail } from './trail.ts'

/** The status that proxies log for a disconnected client. It is never sent. */
export const CLIENT_LEFT_STATUS = 499

export const isOfClient = (error: unknown): boolean => error instanceof RequestAborted && error.by === 'client'

/** Returns the error response as the HTTP layer will render it. */
export function toErrorBody(
  error: unknown,
  errors: Trail['errors'],
  ids: RequestIds,
): { status: number; body: string; sha256: string } {
  const { status, body } = toErrorReply(error, errors, ids, () => {})
  const text = JSON.stringify(body)
  return { status, body: text, sha256: hash('sha256', text, 'hex') }
}

/** Returns an error code that reveals nothing about the request. */
export function errorCodeOf(error: unknown): NonNullable<RequestEnd['error']> {
  if (error instanceof GatewayError) return error.code
  if (error instanceof RequestAborted) return error.by === 'client' ? CLIENT_LEFT : 'SHUTDOWN'
  return 'INTERNAL_ERROR'
}

/** Whether a rule rejected the request. False if the models failed. */
export const isDenial = (error: unknown): boolean => error instanceof GatewayError && DENIALS.has(error.code)

const DENIALS: ReadonlySet<GatewayError['code']> = new Set([
  'INSUFFICIENT_PERMISSIONS',
  'USAGE_BY_MODEL_REQUIRED',
  'COMPLETION_LIMIT_EXCEEDED',
  'USAGE_BY_MODEL_BUDGET_EXCEEDED',
  'CONTENT_BLOCKED',
  'PROMPT_BLOCKED',
  'ENTITLEMENT_REFUSED',
])

/**
 * An overloaded gateway must not commit an entry for each rejected request. An entry is written only if a model was
 * called, or a guard found something, before the rejection.
 */
export const isOverloadOnly = (error: unknown, { entitlements, incidents }: Trail): boolean =>
  error instanceof GatewayError && error.code === 'OVERLOADED' && entitlements.length === 0 && incidents.length === 0
