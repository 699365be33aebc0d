import type { AttemptReason } from '../../shared/wire/chat.ts'
import { findAtPath } from '../output/formats.ts'

/** Explains why models failed. */

const WORDS: Record<AttemptReason, string> = {
  timeout: 'timed out',
  server_error: 'failed',
  rate_limit: 'is rate limited',
  connection_error: 'could not be reached',
  auth_failed: "rejected the gateway's key",
  model_not_found: 'is not known to its provider',
  quota_exhausted: 'has no quota left',
  context_length: 'has too small a context for this request',
  content_filter: 'refused the content',
  bad_request: 'rejected the request',
  circuit_open: 'was skipped because it is down',
  overloaded: 'was skipped because its provider is at its limit',
  aborted: 'was stopped',
  entitlement_refused: 'was not called, because the permission for the call was refused',
  internal_error: 'was not called, because the gateway failed',
}

/** Returns the reason for a failure, worded to follow the model's name (`<model> timed out`). */
export const failureWords = (reason: string): string =>
  (WORDS as Partial<Record<string, string>>)[reason] ?? `failed (${reason})`

/** Advice for the failures that only the operator can fix. */
const ADVICE: Record<string, (model: string, provider: string) => string> = {
  auth_failed: (_, provider) =>
    `The provider rejected the gateway's key: check the key of '${provider}' in the gateway's configuration.`,
  model_not_found: (model, provider) =>
    `The provider has no such model: check the name '${model}', and the base_url of '${provider}'.`,
  quota_exhausted: (_, provider) =>
    `The provider's quota is used up: check credit and limits of the account behind '${provider}'.`,
}

const adviceFor = (attempt: unknown): string | undefined => {
  const model = String(findAtPath(attempt, 'model'))
  return ADVICE[String(findAtPath(attempt, 'reason'))]?.(model, model.slice(0, Math.max(0, model.indexOf('/'))))
}

/** Names the command that shows what a request's models answered. Only administrators may run it. */
export const logHint = (requestId: string | undefined): string[] =>
  requestId === undefined ? [] : [`What happened?      aigw logs show ${requestId}`]

/** Returns one line for each failed attempt of a chain, then the advice for the operator. */
export const attemptHints = (attempts: readonly unknown[]): string[] => [
  ...attempts.map(
    (attempt) =>
      `${findAtPath(attempt, 'model')}:  ${findAtPath(attempt, 'reason')} after ${findAtPath(attempt, 'latency_ms')} ms`,
  ),
  ...new Set(attempts.flatMap((attempt) => adviceFor(attempt) ?? [])),
]

/** Whether a retry cannot succeed, because only the operator can fix the failures. */
export const needOperator = (attempts: unknown): boolean =>
  Array.isArray(attempts) && attempts.length > 0 && attempts.every((attempt) => adviceFor(attempt) !== undefined)
