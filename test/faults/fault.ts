import type { FailureReason } from '../../src/daemon/providers/provider.ts'
import type { Play } from './raw-upstream.ts'

/** What must become of a request to a model with this fault. */
export type Expected =
  /** It answers all the same. */
  | { answers: string | RegExp; finish?: 'stop' | 'length' | 'content_filter' }
  /** It fails before its first word: the next model is asked, and without one the request is an error. */
  | { fails: FailureReason; retryAfter?: readonly [min: number, max: number] }
  /** It refuses the request, which is the caller's fault: no other model is asked. */
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
}

/** A fault that is the same whether the answer is streamed or not. */
export const both = (name: string, play: Play, expected: Expected): Fault => ({
  name,
  streamed: { play, expected },
  whole: { play, expected },
})
