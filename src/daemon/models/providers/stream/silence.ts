// Ends a call that is silent for too long.
import { STREAM_END_GRACE_MS } from '../../../../shared/spec-limits.ts'
import type { Clock, Timer } from '../../../../shared/time.ts'
import { ProviderError } from '../../provider.ts'

export type Timeouts = { attemptMs: number; firstTokenMs: number; stallMs: number }

/** The timeouts of a provider call. Every method is cheap enough to be called once per network read. */
export type SilenceWatch = {
  /**
   * Starts a wait for bytes from the provider. Only these waits count. Time spent waiting for a slow client does not
   * count.
   */
  waiting(): void
  heard(): void
  /** Call this when the first content has arrived. From now on, the limit applies to the silence between reads. */
  committed(): void
  /**
   * Call this when the finish reason has arrived. After this call, only usage and the end marker may follow, within
   * STREAM_END_GRACE_MS.
   */
  finishing(): void
  stop(): void
}

/**
 * Calls `expire` at most once. `expire` is called if the provider takes longer than attemptMs in total, or if a stream
 * has no content after firstTokenMs. `expire` is also called if a running stream is silent for stallMs, or if a
 * finished stream does not end in time. Every limit applies only to the time spent waiting for the provider. This time
 * begins with the call itself.
 *
 *   first ──committed──▶ running ──finishing──▶ ending        (not streamed: running from the start, without a stall limit)
 *                           ▲─────committed────────┘           (text after a finish reason revokes it)
 */
export function watchSilence(
  clock: Clock,
  { attemptMs, firstTokenMs, stallMs }: Timeouts,
  streamed: boolean,
  expire: (error: ProviderError) => void,
): SilenceWatch {
  let phase: 'first' | 'running' | 'ending' = streamed ? 'first' : 'running'
  /** The total wait until the last received byte. */
  let waitedMs = 0
  let waitingSinceMs: number | undefined = clock.monotonic()
  let finishedAfterMs = 0
  let armedForMs = Number.POSITIVE_INFINITY
  let timer: Timer | undefined

  /** The total wait at which the phase times out. */
  function phaseLimitMs(): number {
    if (phase === 'first') return firstTokenMs
    if (phase === 'ending') return finishedAfterMs + STREAM_END_GRACE_MS
    return streamed ? waitedMs + stallMs : attemptMs
  }

  // Received bytes only ever postpone the deadline. Reads therefore do not reset the timer: when the timer fires, it is
  // set to the remaining time. The timer keeps running while a slow client reads, and the next wait sets the timer
  // again.
  function arm(sinceMs: number): void {
    const endMs = sinceMs + Math.min(attemptMs, phaseLimitMs()) - waitedMs
    if (timer && endMs >= armedForMs) return
    timer?.cancel()
    armedForMs = endMs
    timer = undefined
    // An infinite timeout needs no timer. Node would even treat it as 1 ms.
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
    else if (phase === 'ending') expire(timedOut('the end of its answer'))
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
