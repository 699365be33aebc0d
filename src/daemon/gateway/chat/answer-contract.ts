import type { Change, ChatMetadata, FINISH_REASONS } from '../../../shared/wire/chat.ts'
import type { ChatPart, TokenUsage } from '../../models/provider.ts'
import type { Reply } from '../../platform/http/route.ts'

/** The metadata of an answer, known before its first token. */
export type Envelope = {
  id: string
  created: number
  model: string
  metadata: ChatMetadata
  /** Changes that the gateway made to the request before it was sent; shown on compatibility surfaces. */
  changed: readonly Change[]
}

/** The finish reason of an answer that ended properly. */
export type Finish = (typeof FINISH_REASONS)[number]

/**
 * Renders one answer for the client. `add` takes the parts as they arrive. `close` renders the end, which must not leave
 * before the commit; `send` sends it.
 */
export type Answer = {
  /** False when the client is slow: await `drained` before the next `add`. */
  add(parts: readonly ChatPart[]): boolean
  drained(signal: AbortSignal): Promise<void>
  /** Renders the end of a complete answer; returns the full body that the client receives. */
  close(finish: Finish, usage: TokenUsage): Rendered
  /** Renders the end of a broken stream; returns the full body. Undefined for a whole answer, which sends nothing then. */
  fail(fault: AnswerFault): Rendered | undefined
  /** Ends an answer whose client has disconnected. Returns the SHA-256 of the bytes sent, hex; null if none were. */
  abandon(): string | null
  /** Sends what `close` or `fail` rendered. */
  send(): Reply | undefined
}

/** A complete body and its SHA-256, hex. A stream without replay carries only its last frames as `body`. */
export type Rendered = { contentType: string; body: string; sha256: string }

/** The error sent to the client when an answer breaks after its first token; `verdict` when a guard blocked it. */
export type AnswerFault = { error: string; message: string; reason: string; verdict?: BlockedVerdict }

/** The additional fields of every error that a guard raises. */
export type BlockedVerdict = { verdict: 'BLOCK'; attack_category: string | null; trace_id: string }
