import type { ChatPart, TokenUsage } from '../../provider.ts'
import type { SseEvent } from './sse-event.ts'

/** The state of a streamed answer. A decoder writes it, and the assembly reads it. */
export type AnswerDraft = {
  /** Text and reasoning of the current network read. No part is empty. */
  parts: ChatPart[]
  /** The finish reason, once received. Without a finish reason, the answer is incomplete. */
  ending: { outcome: 'complete' | 'length' | 'filtered'; nativeFinishReason: string } | undefined
  /** The latest token counts. A later event replaces them. */
  usage: TokenUsage | undefined
  /** The provider's end marker was received. */
  done: boolean
  /** The last part of the answer, unless another part follows and replaces it. */
  held?: ChatPart | undefined
}

/** Splits the bytes of one stream into its events. If it throws, the events before the error are valid. */
export type EventReader = {
  /** Returns the events that these bytes complete. */
  read(bytes: Buffer): Iterable<SseEvent>
  /** Returns the incomplete event at the end of the stream, if it can be read. */
  end(): Iterable<SseEvent>
}

/** Decodes one provider's answers. Both decoders throw a ProviderError for an invalid answer. */
export type AnswerFormat = {
  /** Creates a reader for a stream that does not use server-sent events. */
  createEventReader?: () => EventReader
  /** Content may follow a finish reason, and only the end of the body ends the answer. */
  endsWithBody?: true
  /** Tool calls are dropped, because no tools were offered. */
  hidesCalls?: boolean
  /** Creates a decoder for one stream. The decoder gets every event in order, until the draft is `done`. */
  createEventDecoder(): (event: SseEvent, draft: AnswerDraft) => void
  /** Decodes a complete answer that was not streamed. The last part is `end`. */
  decodeBody(body: unknown): ChatPart[]
}
