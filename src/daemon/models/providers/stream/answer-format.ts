import type { ChatPart, TokenUsage } from '../../provider.ts'
import type { SseEvent } from './sse-event.ts'

/** The state of a streamed answer. A decoder writes this state, and the assembly reads it. */
export type AnswerDraft = {
  /** The parts that the current network read has added. No part is empty. */
  parts: ChatPart[]
  /** The finish reason, set when it is received. Without a finish reason, the answer is incomplete. */
  ending: { outcome: 'complete' | 'length' | 'filtered'; nativeFinishReason: string; stopSequence?: string } | undefined
  /** The latest token counts. Counts in a later event replace earlier counts. */
  usage: TokenUsage | undefined
  /** Whether the provider's end marker was received. */
  done: boolean
  /** A part that is added at the end of the answer, unless a later part replaces it. */
  held?: ChatPart | undefined
}

/** Splits the bytes of one stream into events. If `read` throws, the events that it has yielded are valid. */
export type EventReader = {
  /** Returns the events that these bytes complete. */
  read(bytes: Buffer): Iterable<SseEvent>
  /** Returns the incomplete event at the end of the stream, if it can be read. */
  end(): Iterable<SseEvent>
}

/** Decodes one provider's answers. If an answer is invalid, both decoders throw a ProviderError. */
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
