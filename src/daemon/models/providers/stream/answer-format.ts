import type { ChatPart, TokenUsage } from '../../provider.ts'
import type { SseEvent } from './sse-event.ts'

/** What the events of a stream have told so far; a decoder writes it, the assembly decides by it. */
export type AnswerDraft = {
  /** Text and reasoning of the network read at hand, never empty ones. */
  parts: ChatPart[]
  /** The finish reason, once it has come. Without it no answer ends as an answer. */
  ending: { outcome: 'complete' | 'length' | 'filtered'; nativeFinishReason: string } | undefined
  /** The latest counts; every event that has some sets others. */
  usage: TokenUsage | undefined
  /** The provider's end marker was seen. */
  done: boolean
  /** The last part of the answer, if nothing follows: what does may take its place. */
  held?: ChatPart | undefined
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
  /** A finish reason may be followed by more of the answer, and nothing but the end of the body says that it is over. */
  endsWithBody?: true
  /** Calls of tools are left out, for nobody has offered any. */
  hidesCalls?: boolean
  /** A decoder for one stream; it is handed every event in order, until the draft is `done`. */
  createEventDecoder(): (event: SseEvent, draft: AnswerDraft) => void
  /** A whole, not streamed answer: its parts, the `end` last. */
  decodeBody(body: unknown): ChatPart[]
}
