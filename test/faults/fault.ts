import type { FailureReason } from '../../src/daemon/models/provider.ts'
import type { Play } from './raw-upstream.ts'
import type { Mode } from './stage.ts'

/** What must become of a request to a model with this fault. */
export type Expected =
  /** It answers all the same. */
  | { answers: string | RegExp; finish?: 'stop' | 'length' | 'content_filter' }
  /**
   * It fails before its first word: the next model is asked, and without one the request is an error. `ours`: for our
   * settings, so that nobody would ask again.
   */
  | { fails: FailureReason; ours?: true; retryAfter?: readonly [min: number, max: number] }
  /**
   * It refuses the request, which is the caller's fault, unless models before it were down: no other model is asked. The next
   * one is for `context_length`, because it may read more.
   */
  | { refuses: FailureReason }
  /** It breaks after its first words: these are billed, and an error frame ends the stream. */
  | { breaks: FailureReason; after: string | RegExp; outcome: 'truncated' | 'error' }

export type Case = { play: Play; expected: Expected }

/** Where a model is that does not sit at the raw upstream. */
export type Place = 'raw' | 'refused' | 'unknown-host' | 'tls' | 'slammed'

export type Fault = {
  name: string
  place?: Place
  streamed?: Case
  whole?: Case
  /** Moves much data, so it runs by itself. */
  heavy?: boolean
  /** Says more than is held back before it breaks. */
  overflows?: boolean
}

/** A fault that is the same whether the answer is streamed or not. */
export const both = (name: string, play: Play, expected: Expected): Fault => ({
  name,
  streamed: { play, expected },
  whole: { play, expected },
})

/** What is played in a mode, and what must become of it: of an answer that is held back no word has left when it breaks. */
export function caseOf(fault: Fault, mode: Mode): Case | undefined {
  if (mode === 'whole') return fault.whole
  if (mode === 'streamed' || !fault.streamed || fault.overflows) return fault.streamed
  const { play, expected } = fault.streamed
  return { play, expected: 'breaks' in expected ? { fails: expected.breaks } : expected }
}
