import type { ChatPart, TokenUsage } from '../provider.ts'
import { truncatedError } from './failure.ts'
import { createSseReader, type SseEvent } from './sse.ts'

/** What the events of a stream have told so far; a decoder writes it, the assembly decides by it. */
export type AnswerDraft = {
  /** Text and reasoning of the network read at hand, never empty ones. */
  parts: ChatPart[]
  /** The finish reason, once it has come. Without it no answer ends as an answer. */
  ending: { outcome: 'complete' | 'length' | 'filtered'; nativeFinishReason: string } | undefined
  usage: TokenUsage | undefined
  /** The provider's end marker was seen. */
  done: boolean
}

/** Cuts the bytes of one stream, split anywhere, into its events. What it throws counts after the events before it. */
export type EventReader = {
  /** The events that these bytes complete. */
  read(bytes: Buffer): Iterable<SseEvent>
  /** The event that was under way when the stream ended, if it can be told. */
  end(): Iterable<SseEvent>
}

/** One provider's words, turned into ours. Both decoders throw a ProviderError for what is not an answer. */
export type AnswerFormat = {
  /** Where a stream is not one of server-sent events: a reader for it. */
  createEventReader?: () => EventReader
  /** A decoder for one stream; it is handed every event in order, until the draft is `done`. */
  createEventDecoder(): (event: SseEvent, draft: AnswerDraft) => void
  /** A whole, not streamed answer: its parts, the `end` last. */
  decodeBody(body: unknown): ChatPart[]
}

export type AnswerAssembly = {
  /**
   * `finishing`: the finish reason has come, only usage and the end marker may still follow. `broken`: the next `take` throws,
   * whatever it is given.
   */
  readonly state: 'open' | 'finishing' | 'broken' | 'ended'
  /**
   * Takes the bytes of one network read, or null for the end of the body, and returns the parts that they complete. What was
   * said before a failure in the same bytes is returned first, so that it is never lost to how the network cut the stream.
   * @throws ProviderError, `truncated` when the stream ended without a finish reason.
   */
  take(bytes: Buffer | null): ChatPart[]
}

/** Puts a streamed answer together: bytes in, split anywhere, parts out; the last one is `end`. */
export function assembleAnswer(format: AnswerFormat): AnswerAssembly {
  const events: EventReader = format.createEventReader?.() ?? createSseReader()
  const decode = format.createEventDecoder()
  const draft: AnswerDraft = { parts: [], ending: undefined, usage: undefined, done: false }
  let ended = false
  let failure: { reason: unknown } | undefined

  function decodeAll(bytes: Buffer | null): void {
    for (const event of bytes ? events.read(bytes) : events.end()) {
      decode(event, draft)
      if (draft.done) break
    }
    if (!draft.done && bytes !== null) return
    if (!draft.ending) throw truncatedError()
    draft.parts.push({ type: 'end', ...draft.ending, usage: draft.usage })
    ended = true
  }

  return {
    get state() {
      if (failure) return 'broken'
      if (ended) return 'ended'
      return draft.ending ? 'finishing' : 'open'
    },
    take(bytes) {
      if (failure) throw failure.reason
      draft.parts = []
      try {
        decodeAll(bytes)
      } catch (reason) {
        if (draft.parts.length === 0) throw reason
        failure = { reason }
      }
      return draft.parts
    },
  }
}
