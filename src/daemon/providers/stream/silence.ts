import { STREAM_END_GRACE_MS } from '../../../shared/spec-limits.ts'
import type { Clock, Timer } from '../../../shared/time.ts'
import { ProviderError } from '../provider.ts'

export type Timeouts = { attemptMs: number; firstTokenMs: number; stallMs: number }

/** The limits on a provider's silence. Every method is cheap enough to be called once per network read. */
export type SilenceWatch = {
  /** We now wait for bytes; only such time counts as silence, a slow client's does not. */
  waiting(): void
  heard(): void
  /** The first content has come: from here on the silence between reads is what counts. */
  committed(): void
  /** The answer has its finish reason; only usage and the end marker may still come, for STREAM_END_GRACE_MS. */
  finishing(): void
  stop(): void
}

/**
 * Calls `expire` at most once: when the whole attempt takes longer than attemptMs, when a stream has no content after
 * firstTokenMs, when a running one is silent for stallMs, or when a finished one does not end.
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
  const startMs = clock.monotonic()
  const attemptEndMs = startMs + attemptMs
  let phase: 'first' | 'running' | 'ending' = streamed ? 'first' : 'running'
  let finishedMs = 0
  let silentSinceMs: number | undefined
  let armedForMs = Number.POSITIVE_INFINITY
  let timer: Timer | undefined

  /** The earliest moment at which silence may become too long, as far as is known now. */
  function phaseEndMs(): number {
    if (phase === 'first') return startMs + firstTokenMs
    if (phase === 'ending') return finishedMs + STREAM_END_GRACE_MS
    return streamed ? (silentSinceMs ?? clock.monotonic()) + stallMs : attemptEndMs
  }

  // Waiting only ever moves the end away, so the timer is left alone until it fires, and then set to what is left.
  function arm(): void {
    const endMs = Math.min(attemptEndMs, phaseEndMs())
    if (timer && endMs >= armedForMs) return
    timer?.cancel()
    armedForMs = endMs
    timer = clock.after(Math.max(0, Math.ceil(endMs - clock.monotonic())), fired)
  }

  function fired(): void {
    timer = undefined
    const nowMs = clock.monotonic()
    if (nowMs >= attemptEndMs) expire(timedOut(`its whole answer within ${attemptMs} ms`))
    else if (nowMs < phaseEndMs()) arm()
    else if (phase === 'first') expire(timedOut(`its first token within ${firstTokenMs} ms`))
    else if (phase === 'ending') expire(timedOut('its end'))
    else expire(timedOut(`anything for ${stallMs} ms in the middle of its answer`))
  }

  arm()
  return {
    waiting() {
      silentSinceMs = clock.monotonic()
    },
    heard() {
      silentSinceMs = undefined
    },
    committed() {
      if (phase === 'running') return
      phase = 'running'
      arm()
    },
    finishing() {
      if (phase === 'ending') return
      phase = 'ending'
      finishedMs = clock.monotonic()
      arm()
    },
    stop() {
      timer?.cancel()
      timer = undefined
    },
  }
}

const timedOut = (what: string) => new ProviderError('timeout', `The provider did not send ${what}.`)
