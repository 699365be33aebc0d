import { ERRORS } from '../../../shared/errors.ts'
import type { Exchange } from './exchange.ts'

/**
 * How a request ended. `blocked`: by a guard. `limited`: by a limit of the key, its user or an address. `denied`: by
 * rights. `invalid`: the request is wrong. `overloaded`: no capacity. `failed`: by the models or the gateway.
 * `cancelled`: by the client.
 */
export type RequestOutcome =
  | 'success'
  | 'blocked'
  | 'limited'
  | 'denied'
  | 'invalid'
  | 'overloaded'
  | 'failed'
  | 'cancelled'

export type RequestEnd = { status: number; outcome: RequestOutcome; error: string | undefined; durationMs: number }

/** Is told about each request. Must not throw. */
export type RequestObserver = {
  began?(exchange: Exchange): void
  ended(exchange: Exchange, end: RequestEnd): void
}

/** The status that proxies log for a disconnected client. It is never sent. */
const CLIENT_LEFT_STATUS = 499
const CLIENT_LEFT = 'CLIENT_LEFT'

/** Returns how a request ended, from its response and the error that ended it. */
export function endOf({ observed, failure, response, startedMs }: Exchange, nowMs: number): RequestEnd {
  const error = observed?.error ?? failure
  const status = response.headersSent ? response.statusCode : CLIENT_LEFT_STATUS
  return { status, outcome: outcomeOf(status, error), error, durationMs: nowMs - startedMs }
}

const OUTCOMES: Readonly<Record<string, RequestOutcome>> = {
  [CLIENT_LEFT]: 'cancelled',
  CONTENT_BLOCKED: 'blocked',
  PROMPT_BLOCKED: 'blocked',
  RATE_LIMIT_EXCEEDED: 'limited',
  COMPLETION_LIMIT_EXCEEDED: 'limited',
  USAGE_BY_MODEL_BUDGET_EXCEEDED: 'limited',
  OVERLOADED: 'overloaded',
  ALL_MODELS_RATE_LIMITED: 'failed',
}

function outcomeOf(sent: number, error: string | undefined): RequestOutcome {
  if (error !== undefined && OUTCOMES[error]) return OUTCOMES[error]
  if (sent === CLIENT_LEFT_STATUS) return 'cancelled'
  if (sent < 400 && error === undefined) return 'success'
  // A stream that fails after its head has the status 200.
  const status = sent < 400 ? (ERRORS[error as keyof typeof ERRORS]?.status ?? 500) : sent
  if (status === 401 || status === 403) return 'denied'
  return status < 500 ? 'invalid' : 'failed'
}
