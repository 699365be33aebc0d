import { LRUCache } from 'lru-cache'
import { CIRCUIT_FAILURES, CIRCUIT_PROBE_MS, CIRCUIT_WINDOW_MS, CIRCUITS_KEPT } from '../../shared/spec-limits.ts'
import type { Clock } from '../../shared/time.ts'
import { type FailureReason, isOperatorReason, isTrigger, OPERATOR_REASONS } from './provider.ts'

/**
 * What is known of a model that has failed. A model of which nothing is known is well: its circuit is closed.
 *
 *   closed ──5 failures in a row within 60 s──▶ open ──its time has come──▶ open, and this one request probes
 *     ▲                                          │
 *     └──first token of any answer───────────────┘        (then one failure opens it again, one good end forgets all)
 */
export type Circuit = {
  /** When the latest failures in a row happened, oldest first, at most CIRCUIT_FAILURES; monotonic milliseconds. */
  readonly failedAtMs: readonly number[]
  /** Why it failed last. */
  readonly reason: FailureReason
  /** While open: when the next request may probe. */
  readonly probeAtMs: number | undefined
  /** How long after a probe the next one may follow. */
  readonly probeWaitMs: number
}

/**
 * After a failure that means the model is down. What still fails while the circuit is open was begun before, or a probe. A model
 * that waits for its operator does not recover within seconds, so each of its probes comes after the longest wait.
 */
export function afterFailure(circuit: Circuit | undefined, reason: FailureReason, nowMs: number): Circuit {
  if (circuit?.probeAtMs !== undefined) return circuit
  const failedAtMs = [...(circuit?.failedAtMs ?? []), nowMs].slice(-CIRCUIT_FAILURES)
  const [oldestMs = nowMs] = failedAtMs
  const opens = failedAtMs.length === CIRCUIT_FAILURES && nowMs - oldestMs <= CIRCUIT_WINDOW_MS
  const firstWaitMs = opens && isOperatorReason(reason) ? CIRCUIT_PROBE_MS.max : CIRCUIT_PROBE_MS.min
  const probeWaitMs = Math.max(circuit?.probeWaitMs ?? 0, firstWaitMs)
  return { failedAtMs, reason, probeWaitMs, probeAtMs: opens ? nowMs + probeWaitMs : undefined }
}

/** The model has begun to answer: it gets its requests back, on probation when it was down. */
export function afterFirstToken(circuit: Circuit, nowMs: number): Circuit {
  if (circuit.probeAtMs === undefined) return circuit
  return { ...circuit, failedAtMs: Array(CIRCUIT_FAILURES - 1).fill(nowMs), probeAtMs: undefined }
}

/**
 * Whether a request must go round this model; if not and the circuit is open, the request is the probe, and the next one may
 * follow after twice the time. Whatever becomes of a probe, no other has to wait for it: a lost one holds nothing up.
 */
export function admit(circuit: Circuit, nowMs: number): { skip: boolean; circuit: Circuit } {
  if (circuit.probeAtMs === undefined) return { skip: false, circuit }
  if (nowMs < circuit.probeAtMs) return { skip: true, circuit }
  const probeWaitMs = Math.min(2 * circuit.probeWaitMs, CIRCUIT_PROBE_MS.max)
  return { skip: false, circuit: { ...circuit, probeWaitMs, probeAtMs: nowMs + probeWaitMs } }
}

/**
 * The failures that mean "the model is down": a rate limit or a refused request is the answer of one that is up. One that rejects
 * our key is as good as down: without a circuit each request would pay for a call that is known to fail.
 */
const DOWN: ReadonlySet<FailureReason> = new Set(['connection_error', 'server_error', 'timeout', ...OPERATOR_REASONS])

/**
 * Remembers which models keep failing, for each tenant by itself: a tenant that sends what makes a model fail, or allows it
 * no time, must not move the requests of others.
 */
export type Breaker = {
  /**
   * Why to go round a model of which a chain has a fallback: its latest failure; undefined where it is to be asked. Only for a
   * failure that would be failed over: whoever leaves its reason out of `triggers` asked for this model or none.
   */
  skips(tenantId: string, modelId: string, triggers: ReadonlySet<string>): FailureReason | undefined
  firstToken(tenantId: string, modelId: string): void
  /** The answer came to a good end. */
  succeeded(tenantId: string, modelId: string): void
  failed(tenantId: string, modelId: string, reason: FailureReason): void
}

export function createBreaker({ clock }: { clock: Clock }): Breaker {
  // Holds failing models only, so as long as all is well a request costs four looks at an empty map.
  const circuits = new LRUCache<string, Circuit>({ max: CIRCUITS_KEPT })
  const keyOf = (tenantId: string, modelId: string) => `${tenantId} ${modelId}`

  return {
    skips(tenantId, modelId, triggers) {
      if (circuits.size === 0) return undefined
      const key = keyOf(tenantId, modelId)
      const known = circuits.get(key)
      if (!known || !isTrigger(known.reason, triggers)) return undefined
      const { skip, circuit } = admit(known, clock.monotonic())
      if (circuit !== known) circuits.set(key, circuit)
      return skip ? known.reason : undefined
    },
    firstToken(tenantId, modelId) {
      if (circuits.size === 0) return
      const key = keyOf(tenantId, modelId)
      const known = circuits.get(key)
      if (known) circuits.set(key, afterFirstToken(known, clock.monotonic()))
    },
    succeeded(tenantId, modelId) {
      if (circuits.size > 0) circuits.delete(keyOf(tenantId, modelId))
    },
    failed(tenantId, modelId, reason) {
      // The client left: that says nothing about the model.
      if (reason === 'aborted') return
      const key = keyOf(tenantId, modelId)
      if (DOWN.has(reason)) circuits.set(key, afterFailure(circuits.get(key), reason, clock.monotonic()))
      else circuits.delete(key)
    },
  }
}
