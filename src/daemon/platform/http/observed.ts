// What a request leaves for metrics, traces and the request log. It never contains content of a request or an answer.
import type { FailoverAttempt } from '../../../shared/wire/chat.ts'
import type { GuardDirection, IncidentAction } from '../../../shared/wire/incidents.ts'

/** What a handler that calls models knows about its request. */
export type Observed = {
  readonly operation: string
  readonly streamed: boolean
  readonly attempts: readonly FailoverAttempt[]
  readonly findings: readonly Finding[]
  /** The error of a rejected, failed or incomplete request. Undefined for a complete answer. */
  readonly error: string | undefined
  /** Undefined if no model began to answer. */
  readonly answer: ObservedAnswer | undefined
}

type Finding = { kind: string; direction: GuardDirection; action: IncidentAction; enforced: boolean }

export type ObservedAnswer = {
  /** `<provider>/<model>` */
  readonly model: string
  readonly outcome: string
  readonly firstTokenMs: number
  readonly usage: {
    inputTokens: number
    outputTokens: number
    cacheReadTokens: number
    cacheWriteTokens: number
    reasoningTokens: number
  }
  readonly nanos: number
  readonly points: number
  /** Set if the answer came from the answer cache. */
  readonly cache: string | undefined
}

/** A request in a trace. Undefined if the operator collects no traces. */
export type RequestTrace = {
  readonly traceId: string
  /** Begins a call to a model. */
  beginCall(facts: { operation: string; provider: string; model: string }): CallTrace
}

/** A call to a model in a trace. */
export type CallTrace = {
  /** The headers that continue the trace at the provider: names and values alternately. */
  readonly headers: readonly string[]
  /** Ends the call. @param reason why it failed; undefined for an answer */
  end(reason?: string): void
}
