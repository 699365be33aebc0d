import type { ChatPart, TokenUsage } from '../../provider.ts'
import type { SseEvent } from './sse-event.ts'

/** The state of a streamed answer. A decoder writes it, and the assembly reads it. */
export type AnswerDraft = {
  /** Text and reasoning of the current network read, never empty ones. */
  parts: ChatPart[]
  /** The finish reason, once it has come. Without it the answer is not complete. */
  ending: { outcome: 'complete' | 'length' | 'filtered'; nativeFinishReason: string } | undefined
  /** The latest counts; a later event replaces them. */
  usage: TokenUsage | undefined
  /** The provider's end marker was seen. */
  done: boolean
  /** The last part of the answer unless another follows, which may replace it. */
  held?: ChatPart | undefined
}

/** Splits the bytes of one stream into its events. If it throws, the events before the error are valid. */
export type EventReader = {
  /** The events that these bytes complete. */
  read(bytes: Buffer): Iterable<SseEvent>
  /** The incomplete event at the end of the stream, if it can be read. */
  end(): Iterable<SseEvent>
}

/** Converts one provider's answers to ours. Both decoders throw a ProviderError for an invalid answer. */
export type AnswerFormat = {
  /** A reader for streams other than server-sent events. */
  createEventReader?: () => EventReader
  /** Content may follow a finish reason, and only the end of the body ends the answer. */
  endsWithBody?: true
  /** Tool calls are dropped, because no tools were offered. */
  hidesCalls?: boolean
  /** A decoder for one stream; it gets every event in order, until the draft is `done`. */
  createEventDecoder(): (event: SseEvent, draft: AnswerDraft) => void
  /** A complete answer without streaming: its parts, with `end` last. */
  decodeBody(body: unknown): ChatPart[]
}
