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

/** One provider's words, turned into ours. Both decoders throw a ProviderError for what is not an answer. */
export type AnswerFormat = {
  /** A decoder for one stream; it is handed every event in order, until the draft is `done`. */
  createEventDecoder(): (event: SseEvent, draft: AnswerDraft) => void
  /** A whole, not streamed answer: its parts, the `end` last. */
  decodeBody(body: unknown): ChatPart[]
}

export type AnswerAssembly = {
  /** `finishing`: the finish reason has come, only usage and the end marker may still follow. */
  readonly state: 'open' | 'finishing' | 'ended'
  /**
   * Takes the bytes of one network read, or null for the end of the body, and returns the parts that they complete.
   * @throws ProviderError, `truncated` when the stream ended without a finish reason.
   */
  take(bytes: Buffer | null): ChatPart[]
}

/** Puts a streamed answer together: bytes in, split anywhere, parts out; the last one is `end`. */
export function assembleAnswer(format: AnswerFormat): AnswerAssembly {
  const sse = createSseReader()
  const decode = format.createEventDecoder()
  const draft: AnswerDraft = { parts: [], ending: undefined, usage: undefined, done: false }
  let ended = false

  return {
    get state() {
      if (ended) return 'ended'
      return draft.ending ? 'finishing' : 'open'
    },
    take(bytes) {
      draft.parts = []
      for (const event of bytes ? sse.read(bytes) : sse.end()) {
        decode(event, draft)
        if (draft.done) break
      }
      if (draft.done || bytes === null) {
        if (!draft.ending) throw truncatedError()
        draft.parts.push({ type: 'end', ...draft.ending, usage: draft.usage })
        ended = true
      }
      return draft.parts
    },
  }
}
