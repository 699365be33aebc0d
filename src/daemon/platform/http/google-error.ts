// Errors in the form of Google's APIs (google.rpc.Status).
import type { GoogleError } from '../../../shared/wire/gemini.ts'

/** Google's name of each HTTP status. */
const STATUSES = new Map<number, string>([
  [401, 'UNAUTHENTICATED'],
  [403, 'PERMISSION_DENIED'],
  [404, 'NOT_FOUND'],
  [405, 'UNIMPLEMENTED'],
  [408, 'DEADLINE_EXCEEDED'],
  [409, 'ABORTED'],
  [429, 'RESOURCE_EXHAUSTED'],
  [500, 'INTERNAL'],
  [501, 'UNIMPLEMENTED'],
  [502, 'UNAVAILABLE'],
  [503, 'UNAVAILABLE'],
  [504, 'DEADLINE_EXCEEDED'],
])

/**
 * Returns the member `error` of a response. Google's clients read the reason and the delay before a retry from
 * `details`.
 */
export function googleError({
  status,
  message,
  reason,
  retryAfterSeconds,
}: {
  status: number
  message: string
  /** The gateway's error code. */
  reason: string
  retryAfterSeconds?: number | undefined
}): GoogleError['error'] {
  return {
    code: status,
    message,
    status: STATUSES.get(status) ?? (status < 500 ? 'INVALID_ARGUMENT' : 'INTERNAL'),
    details: [
      { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'aigw' },
      ...(retryAfterSeconds === undefined
        ? []
        : [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: `${retryAfterSeconds}s` }]),
    ],
  }
}
