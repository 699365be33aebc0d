import type { Change, ChatMetadata, Dropped, FailoverAttempt, FINISH_REASONS } from '../../../shared/wire/chat.ts'
import type { ChatPart, TokenUsage } from '../../models/provider.ts'
import type { Reply } from '../../platform/http/route.ts'

/** The metadata of an answer, known before its first token. */
export type Envelope = {
  id: string
  created: number
  model: string
  metadata: ChatMetadata
  /**
   * Changes that the gateway made to the request before sending it. Compatibility surfaces report these changes in the
   * response.
   */
  changed: readonly Change[]
  /** Fields of the request that were not sent to the provider. */
  dropped: readonly Dropped[]
  /** The stop sequences of the request, as sent by the client and as sent to the model. Undefined without any. */
  stops?: { asked: readonly string[]; sent: readonly string[] } | undefined
}

/** The finish reason of a complete answer. */
export type Finish = (typeof FINISH_REASONS)[number]

/** The finish reasons of the outcomes of complete answers. */
export const FINISH = { complete: 'stop', length: 'length', filtered: 'content_filter' } as const satisfies Record<
  EndPart['outcome'],
  Finish
>

type EndPart = Extract<ChatPart, { type: 'end' }>

/** The finish reason of one of several answers. */
export const finishOfChoice = ({ outcome }: EndPart): Finish => FINISH[outcome]

/**
 * Renders one answer for the client. `add` receives the parts as they arrive. `close` renders the end of the answer.
 * `send` sends the rendered end, and must be called only after the commit.
 */
export type Answer = {
  /** Returns false if the client is slow: await `drained` before the next `add`. */
  add(parts: readonly ChatPart[]): boolean
  drained(signal: AbortSignal): Promise<void>
  /**
   * Renders the end of a complete answer. Returns the full body that the client receives. The body of a large answer is
   * rendered in steps.
   */
  close(finish: Finish, usage: TokenUsage, isLarge: boolean): Rendered | Promise<Rendered>
  /**
   * Renders the end of a broken stream and returns the full body. Returns undefined for a non-streamed answer, because
   * no body is sent.
   */
  fail(fault: AnswerFault): Rendered | undefined
  /**
   * Ends an answer whose client has disconnected. Returns the SHA-256 of the sent bytes in hex, or null if no bytes
   * were sent.
   */
  abandon(): string | null
  /** Sends the output of `close` or `fail`. */
  send(): Reply | undefined
}

/**
 * A complete body and its SHA-256 in hex. For a stream that is not stored for replay, `body` contains only the last
 * frames.
 */
export type Rendered = { contentType: string; body: string; sha256: string }

/**
 * The error that is sent to the client if a stream fails after its head was sent. `verdict` is set if a guard blocked the
 * answer. `attempts` is set if no model answered.
 */
export type AnswerFault = {
  error: string
  message: string
  reason: string
  /** Whether the same request may succeed later. */
  retryable: boolean
  verdict?: BlockedVerdict
  attempts?: readonly FailoverAttempt[]
}

/** Additional fields of every error that a guard raises. */
export type BlockedVerdict = { verdict: 'BLOCK'; attack_category: string | null; trace_id: string }
