import { STREAM_END_GRACE_MS } from '../../../../shared/spec-limits.ts'
import type { Clock, Timer } from '../../../../shared/time.ts'
import { ProviderError } from '../../provider.ts'

export type Timeouts = { attemptMs: number; firstTokenMs: number; stallMs: number }

/** The limits on a provider's silence. Every method is cheap enough to be called once per network read. */
export type SilenceWatch = {
  /** We now wait for bytes; only such time counts, not what a slow client takes. */
  waiting(): void
  heard(): void
  /** The first content has come: from here on the silence between reads is what counts. */
  committed(): void
  /** The answer has its finish reason; only usage and the end marker may still come, for STREAM_END_GRACE_MS. */
  finishing(): void
  stop(): void
}

/**
 * Calls `expire` at most once: when the provider takes longer than attemptMs in all, when a stream has no content after
 * firstTokenMs, when a running one is silent for stallMs, or when a finished one does not end. Every limit is on the time
 * spent waiting for the provider, which begins with the call itself.
 *
 *   first ──committed──▶ running ──finishing──▶ ending        (not streamed: running from the start, without a stall limit)
 *                           ▲─────committed────────┘           (text after a finish reason takes it back)
 */
export function watchSilence(
  clock: Clock,
  { attemptMs, firstTokenMs, stallMs }: Timeouts,
  streamed: boolean,
  expire: (error: ProviderError) => void,
): SilenceWatch {
  let phase: 'first' | 'running' | 'ending' = streamed ? 'first' : 'running'
  /** Time waited until the last byte we heard. */
  let waitedMs = 0
  let waitingSinceMs: number | undefined = clock.monotonic()
  let finishedAfterMs = 0
  let armedForMs = Number.POSITIVE_INFINITY
  let timer: Timer | undefined

  /** How much may have been waited in all before the phase has lasted too long. */
  function phaseLimitMs(): number {
    if (phase === 'first') return firstTokenMs
    if (phase === 'ending') return finishedAfterMs + STREAM_END_GRACE_MS
    return streamed ? waitedMs + stallMs : attemptMs
  }

  // Bytes only ever move the end away, so the timer is left alone until it fires, and then set to what is left. It also
  // runs on while the client takes its time; then the next wait sets it anew.
  function arm(sinceMs: number): void {
    const endMs = sinceMs + Math.min(attemptMs, phaseLimitMs()) - waitedMs
    if (timer && endMs >= armedForMs) return
    timer?.cancel()
    armedForMs = endMs
    timer = undefined
    // Node takes an infinite timeout for 1 ms.
    if (!Number.isFinite(endMs)) return
    timer = clock.after(Math.max(0, Math.ceil(endMs - clock.monotonic())), fired)
  }

  function fired(): void {
    timer = undefined
    if (waitingSinceMs === undefined) return
    const nowWaitedMs = waitedMs + clock.monotonic() - waitingSinceMs
    if (nowWaitedMs >= attemptMs) expire(timedOut(`its whole answer within ${attemptMs} ms`))
    else if (nowWaitedMs < phaseLimitMs()) arm(waitingSinceMs)
    else if (phase === 'first') expire(timedOut(`its first token within ${firstTokenMs} ms`))
    else if (phase === 'ending') expire(timedOut('its end'))
    else expire(timedOut(`anything for ${stallMs} ms in the middle of its answer`))
  }

  arm(waitingSinceMs)
  return {
    waiting() {
      waitingSinceMs ??= clock.monotonic()
      arm(waitingSinceMs)
    },
    heard() {
      if (waitingSinceMs === undefined) return
      waitedMs += clock.monotonic() - waitingSinceMs
      waitingSinceMs = undefined
    },
    committed() {
      phase = 'running'
    },
    finishing() {
      if (phase === 'ending') return
      phase = 'ending'
      finishedAfterMs = waitedMs
    },
    stop() {
      timer?.cancel()
      timer = undefined
    },
  }
}

const timedOut = (what: string) => new ProviderError('timeout', `The provider did not send ${what}.`)
