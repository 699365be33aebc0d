import { LRUCache } from 'lru-cache'
import type { Clock } from '../../shared/time.ts'
import { type FailureReason, isOperatorReason, isTrigger, OPERATOR_REASONS } from './provider.ts'

/** A model's circuit opens after CIRCUIT_FAILURES consecutive failures within CIRCUIT_WINDOW_MS. */
export const CIRCUIT_FAILURES = 5
export const CIRCUIT_WINDOW_MS = 60_000
/** The time before an open circuit is probed. The time starts at `min` and doubles after each probe, up to `max`. */
export const CIRCUIT_PROBE_MS = { min: 5_000, max: 10_000 } as const
/** The maximum number of circuits. If it is exceeded, the least recently used circuit is evicted. */
const CIRCUITS_KEPT = 10_000

/**
 * The recent failures of a model. If a model has no entry, its circuit is closed: the model is healthy.
 *
 *   closed ──5 failures in a row within 60 s──▶ open ──probe time──▶ open; one request probes
 *     ▲                                          │
 *     └──first token of any answer───────────────┘        (then one failure opens it again; a complete answer removes the entry)
 */
export type Circuit = {
  /** The times of the latest consecutive failures in monotonic milliseconds, oldest first. At most CIRCUIT_FAILURES. */
  readonly failedAtMs: readonly number[]
  /** The reason for the last failure. */
  readonly reason: FailureReason
  /** From this time on, the next request may be sent as a probe. The time is undefined while the circuit is closed. */
  readonly probeAtMs: number | undefined
  /** The wait between two probes. */
  readonly probeWaitMs: number
}

/**
 * Returns the circuit after a failure that indicates an outage of the model. If the circuit was already open, the
 * failed request was a probe, or began before the circuit opened. If only the operator can fix the failure, the wait
 * between probes is the maximum.
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

/**
 * Returns the circuit after the first token of an answer. After this call, the model receives requests again. If it was
 * down, one more failure reopens the circuit.
 */
export function afterFirstToken(circuit: Circuit, nowMs: number): Circuit {
  if (circuit.probeAtMs === undefined) return circuit
  return { ...circuit, failedAtMs: Array(CIRCUIT_FAILURES - 1).fill(nowMs), probeAtMs: undefined }
}

/**
 * Decides whether a request must skip this model. If the circuit is open, the first request after the probe time is
 * sent as a probe, and the wait until the next probe doubles. Probes do not wait for the results of earlier probes, so
 * one lost probe cannot keep the circuit open.
 */
export function admit(circuit: Circuit, nowMs: number): { skip: boolean; circuit: Circuit } {
  if (circuit.probeAtMs === undefined) return { skip: false, circuit }
  if (nowMs < circuit.probeAtMs) return { skip: true, circuit }
  const probeWaitMs = Math.min(2 * circuit.probeWaitMs, CIRCUIT_PROBE_MS.max)
  return { skip: false, circuit: { ...circuit, probeWaitMs, probeAtMs: nowMs + probeWaitMs } }
}

/**
 * Failures that indicate that the model is down. Rate limits and rejected requests are not listed, because they show
 * that the model is up. A rejected API key is listed, so that requests do not repeat a call that is known to fail.
 */
const DOWN: ReadonlySet<FailureReason> = new Set(['connection_error', 'server_error', 'timeout', ...OPERATOR_REASONS])

/**
 * Tracks failing models for each tenant separately. If the prompts or timeouts of one tenant make a model fail,
 * requests of other tenants must not be affected.
 */
export type Breaker = {
  /**
   * Returns the latest failure of a model if requests must skip the model and use its fallback. Returns undefined if
   * the model may be called. Ignores failures that are not in `triggers`, because the caller does not accept a fallback
   * for them.
   */
  skips(tenantId: string, modelId: string, triggers: ReadonlySet<string>): FailureReason | undefined
  /** Whether the circuit of a model is open, also while a probe is running. */
  isDown(tenantId: string, modelId: string): boolean
  firstToken(tenantId: string, modelId: string): void
  /** Removes the entry of a model. Call this after a complete answer. */
  succeeded(tenantId: string, modelId: string): void
  failed(tenantId: string, modelId: string, reason: FailureReason): void
  /** The circuits that are open now, over all tenants. `half_open`: the next request is a probe. */
  open(): readonly { modelId: string; state: 'open' | 'half_open' }[]
  /** Removes the entries of a provider. Call this when its address or its key has changed. */
  forget(provider: string): void
}

/** Is told when a model goes down for a tenant, and when it answers. Both calls must be cheap. */
export type OutageReports = {
  down(tenantId: string, modelId: string, reason: FailureReason): void
  answered(tenantId: string, modelId: string): void
}

const NO_REPORTS: OutageReports = { down() {}, answered() {} }

export function createBreaker({ clock, outages = NO_REPORTS }: { clock: Clock; outages?: OutageReports }): Breaker {
  // Contains only failing models. Fast path: the map is usually empty, which saves each request four lookups.
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
    isDown: (tenantId, modelId) => circuits.peek(keyOf(tenantId, modelId))?.probeAtMs !== undefined,
    firstToken(tenantId, modelId) {
      if (circuits.size === 0) return
      const key = keyOf(tenantId, modelId)
      const known = circuits.get(key)
      if (known) circuits.set(key, afterFirstToken(known, clock.monotonic()))
    },
    succeeded(tenantId, modelId) {
      // Even without a circuit: another daemon, or this one before a restart, may have reported the outage.
      outages.answered(tenantId, modelId)
      if (circuits.size > 0) circuits.delete(keyOf(tenantId, modelId))
    },
    failed(tenantId, modelId, reason) {
      // The client disconnected, so the outcome does not show whether the model is healthy.
      if (reason === 'aborted') return
      const key = keyOf(tenantId, modelId)
      if (!DOWN.has(reason)) {
        circuits.delete(key)
        return
      }
      const circuit = afterFailure(circuits.get(key), reason, clock.monotonic())
      circuits.set(key, circuit)
      if (circuit.probeAtMs !== undefined) outages.down(tenantId, modelId, reason)
    },
    open() {
      const nowMs = clock.monotonic()
      return [...circuits.entries()].flatMap(([key, { probeAtMs }]) =>
        probeAtMs === undefined
          ? []
          : [{ modelId: key.slice(key.indexOf(' ') + 1), state: nowMs < probeAtMs ? 'open' : 'half_open' } as const],
      )
    },
    forget(provider) {
      for (const key of circuits.keys()) if (key.includes(` ${provider}/`)) circuits.delete(key)
    },
  }
}

/** A breaker that never opens. Used for calls whose results do not show whether a model is healthy. */
export const NO_BREAKER: Breaker = {
  skips: () => undefined,
  isDown: () => false,
  firstToken() {},
  succeeded() {},
  failed() {},
  open: () => [],
  forget() {},
}
