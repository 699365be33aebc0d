// Assembles a streamed answer from chunks of bytes.
import type { ChatPart, TokenUsage } from '../../provider.ts'
import type { AnswerAssembly, AnswerDraft, AnswerFormat, EventReader } from './answer-format.ts'
import { type Ending, worseEnding } from './ending.ts'
import { truncatedError } from './failure.ts'
import { createSseReader } from './sse.ts'
import { createCallCheck } from './tool-arguments.ts'

/** Assembles a streamed answer. The bytes may be split anywhere. The last part is `end`. */
export function assembleAnswer(format: AnswerFormat): AnswerAssembly {
  const events: EventReader = format.createEventReader?.() ?? createSseReader()
  const decode = format.createEventDecoder()
  const draft: AnswerDraft = { parts: [], ending: undefined, usage: undefined, done: false }
  let ended = false
  /** Whether the provider's latest token counts cover all content received so far. */
  let isCounted = false
  let reportedUsage: TokenUsage | undefined
  let hasOutput = false
  const calls = createCallCheck(format)
  /** The worst ending that was received since the last content. */
  let ending: Ending | undefined
  let isFinishing = false
  let wasRetracted = false
  let failure: { reason: unknown } | undefined

  function decodeAll(bytes: Buffer | null): void {
    for (const event of bytes ? events.read(bytes) : events.end()) {
      const { usage, ending: endingBefore } = draft
      const before = draft.parts.length
      decode(event, draft)
      const hasWords = draft.parts.length > before
      if (draft.usage !== usage) isCounted = true
      else if (hasWords) isCounted = false
      if (hasWords) addWords(before)
      if (draft.ending && draft.ending !== endingBefore) {
        // Only the first finish reason after the latest content is considered, because a server that repeats its reason
        // may still send content.
        if (!ending) isFinishing = !hasWords && hasOutput && !wasRetracted && !format.endsWithBody
        ending = worseEnding(ending, draft.ending)
        draft.ending = ending
      }
      if (draft.done) break
    }
    if (!draft.done && bytes !== null) return
    if (!draft.ending) throw truncatedError()
    if (draft.held) {
      draft.parts.push(draft.held)
      calls.add(draft.held)
    }
    calls.check(draft.ending)
    if (!isCounted) reportUsage()
    draft.parts.push({ type: 'end', ...draft.ending, usage: isCounted ? draft.usage : undefined })
    ended = true
  }

  function addWords(from: number): void {
    hasOutput = true
    wasRetracted ||= ending !== undefined
    ending = undefined
    isFinishing = false
    for (let at = from; at < draft.parts.length; at++) calls.add(draft.parts[at] as ChatPart)
  }

  /**
   * Adds a part with the current counts. These counts are billed if the answer breaks off. The part is never the first
   * part, because counts are not content.
   */
  function reportUsage(): void {
    hasOutput ||= draft.parts.length > 0
    if (draft.usage === undefined || draft.usage === reportedUsage || !hasOutput) return
    reportedUsage = draft.usage
    draft.parts.push({ type: 'usage', usage: draft.usage })
  }

  return {
    state() {
      if (failure) return 'broken'
      if (ended) return 'ended'
      return draft.ending && isFinishing ? 'finishing' : 'open'
    },
    take(bytes) {
      if (failure) throw failure.reason
      const parts: ChatPart[] = []
      draft.parts = parts
      try {
        decodeAll(bytes)
      } catch (reason) {
        reportUsage()
        if (parts.length === 0) throw reason
        failure = { reason }
      }
      if (!ended) reportUsage()
      // Releases all objects before the next read. With many idle streams, objects that they retain would use most of
      // the memory.
      draft.parts = NO_PARTS
      return parts
    },
  }
}

const NO_PARTS: ChatPart[] = []
