import type { Change, ChatMetadata, FINISH_REASONS } from '../../../shared/wire/chat.ts'
import type { ChatPart, TokenUsage } from '../../models/provider.ts'
import type { Reply } from '../../platform/http/route.ts'

/** What is known of an answer before its first word. */
export type Envelope = {
  id: string
  created: number
  model: string
  metadata: ChatMetadata
  /** What of the request was changed before the model got it; shown on compatibility surfaces. */
  changed: readonly Change[]
}

/** How an answer that can be called one came to its end. */
export type Finish = (typeof FINISH_REASONS)[number]

/**
 * One way to hand an answer to the client. `add` takes the parts as they come; `close` renders what remains and must leave
 * only after the commit, so it is kept back until `send`.
 */
export type Answer = {
  /** False when the client is slow: await `drained` before the next `add`. */
  add(parts: readonly ChatPart[]): boolean
  drained(signal: AbortSignal): Promise<void>
  /** Renders the end of a good answer; returns everything the client will have received. */
  close(finish: Finish, usage: TokenUsage): Rendered
  /** Renders the end of a stream that broke; returns all of it, likewise. Of a whole answer nothing has left, nor will. */
  fail(fault: AnswerFault): Rendered | undefined
  /** Ends an answer whose client has gone: the SHA-256 of what has left, hex; null when nothing has. */
  abandon(): string | null
  /** Sends what `close` or `fail` rendered. */
  send(): Reply | undefined
}

/** A body to its last byte: all of it where it may be wanted again, and its SHA-256, hex. */
export type Rendered = { contentType: string; body: string; sha256: string }

/** What the client is told when an answer breaks after its first word; `verdict` when a guard blocked it. */
export type AnswerFault = { error: string; message: string; reason: string; verdict?: BlockedVerdict }

/** What every refusal by a guard says beside its message. */
export type BlockedVerdict = { verdict: 'BLOCK'; attack_category: string | null; trace_id: string }
