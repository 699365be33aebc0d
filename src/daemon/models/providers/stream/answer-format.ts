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

/** The state of a stream that is being assembled. */
export type AnswerAssembly = {
  /**
   * `finishing`: the finish reason was received. Only usage and the end marker may follow, and the answer is complete
   * without them. `open`: content may follow. The state remains `open` if a finish reason arrives with content or
   * before any content, because some servers send one with every chunk. `broken`: the next `take` throws for any
   * argument.
   */
  state(): 'open' | 'finishing' | 'broken' | 'ended'
  /**
   * Processes the bytes of one network read, or null at the end of the body. Returns the parts that these bytes
   * complete. If the bytes contain content and then a failure, the content is returned first. The result therefore does
   * not depend on how the network split the stream.
   * @throws ProviderError, `truncated` if the stream ended without a finish reason
   */
  take(bytes: Buffer | null): ChatPart[]
}

/** Decodes one provider's answers. If an answer is invalid, both decoders throw a ProviderError. */
export type AnswerFormat = {
  /** Creates a reader for a stream that does not use server-sent events. */
  createEventReader?: () => EventReader
  /** Content may follow a finish reason, and only the end of the body ends the answer. */
  endsWithBody?: true
  /** Tool calls are dropped, because no tools were offered. */
  hidesCalls?: boolean
  /**
   * Set if a response has several answers: assembles their stream, instead of `createEventDecoder`. `decodeBody` then
   * checks the tool calls itself.
   */
  createAssembly?: () => AnswerAssembly
  /** Creates a decoder for one stream. The decoder gets every event in order, until the draft is `done`. */
  createEventDecoder(): (event: SseEvent, draft: AnswerDraft) => void
  /** Decodes a complete answer that was not streamed. The last part is `end`. */
  decodeBody(body: unknown): ChatPart[]
}
