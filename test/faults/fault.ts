import type { FailureReason } from '../../src/daemon/models/provider.ts'
import type { Play } from './raw-upstream.ts'
import type { Mode } from './stage.ts'

/** The expected result of a request to a model with this fault. */
export type Expected =
  /** The request succeeds despite the fault. */
  | { answers: string | RegExp; finish?: 'stop' | 'length' | 'content_filter' }
  /**
   * The model fails before its first text. The request continues with the next model, or fails without one. `ours`: our
   * own configuration is wrong, so the model is not retried. `transient`: a status after which it is retried.
   */
  | { fails: FailureReason; ours?: true; transient?: true; retryAfter?: readonly [min: number, max: number] }
  /**
   * The model rejects the request as the caller's fault, and no other model is tried. Exceptions: an earlier model was
   * down, or the reason is `context_length`, because the next model may accept a longer prompt.
   */
  | { refuses: FailureReason }
  /** The model fails after its first text. The text is billed, and an error frame ends the stream. */
  | { breaks: FailureReason; after: string | RegExp; outcome: 'truncated' | 'error' }

export type Case = { play: Play; expected: Expected }

/** The address of a model. Only `raw` is the raw upstream. */
export type Place = 'raw' | 'refused' | 'unknown-host' | 'tls' | 'slammed'

export type Fault = {
  name: string
  place?: Place
  streamed?: Case
  whole?: Case
  /** Transfers much data, so it runs alone. */
  heavy?: boolean
  /** Sends more text than a held answer may buffer before it breaks. */
  overflows?: boolean
}

/** A fault with the same result for streamed and whole answers. */
export const both = (name: string, play: Play, expected: Expected): Fault => ({
  name,
  streamed: { play, expected },
  whole: { play, expected },
})

/** The case of a mode. If an answer is held until complete, no text was sent to the client when it breaks. */
export function caseOf(fault: Fault, mode: Mode): Case | undefined {
  if (mode === 'whole') return fault.whole
  if (mode === 'streamed' || !fault.streamed || fault.overflows) return fault.streamed
  const { play, expected } = fault.streamed
  return { play, expected: 'breaks' in expected ? { fails: expected.breaks } : expected }
}
