import { appendTo } from '../../../../shared/lists.ts'
import type { ChatPart } from '../../../models/provider.ts'
import type { AnswerGuard } from './answer-guard.ts'
import { OutputBlocked } from './output-blocked.ts'

/**
 * Guards of an answer that may be spoken. Guards inspect the transcript. They cannot change audio, so an answer whose
 * transcript they would change is blocked. If guards can block or change answers, no part leaves before the whole
 * transcript was inspected.
 */
export function guardSpoken(guard: AnswerGuard): AnswerGuard {
  if (!guard.acts) return guard
  let held: ChatPart[] = []

  async function judged(): Promise<readonly ChatPart[]> {
    const parts = held
    held = []
    const passed = await guard.pass(parts)
    const isSpoken = parts.some(({ type }) => type === 'audio')
    if (isSpoken && textOf(passed) !== textOf(parts)) throw new OutputBlocked([])
    return passed
  }

  return {
    acts: true,
    pass(parts) {
      appendTo(held, parts)
      return parts.at(-1)?.type === 'end' ? judged() : NO_PARTS
    },
    /** The transcript of a broken answer is incomplete, so the audio stays here. The findings still count. */
    async end() {
      if (held.length > 0) await guard.pass(held)
      held = []
      await guard.end()
      return NO_PARTS
    },
    whenQuiet: () => NOTHING_WAITS,
    incidents: () => guard.incidents(),
  }
}

const NO_PARTS: readonly ChatPart[] = []
const NOTHING_WAITS = { cancel() {} }

const textOf = (parts: readonly ChatPart[]): string =>
  parts.map((part) => (part.type === 'text' ? part.text : '')).join('')
