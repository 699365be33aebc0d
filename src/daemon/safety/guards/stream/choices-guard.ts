import type { ChatPart } from '../../../models/provider.ts'
import type { AnswerGuard } from './answer-guard.ts'

/**
 * Creates the guards of a response with several answers. Each answer has its own guard, which inspects it like a single
 * answer. If one answer is blocked, the whole response is blocked.
 */
export function guardChoices(count: number, createGuard: () => AnswerGuard): AnswerGuard {
  const guards = Array.from({ length: count }, createGuard)
  return {
    acts: guards.some(({ acts }) => acts),
    pass: (parts) => passing(parts, guards),
    async end() {
      const ended: ChatPart[] = []
      for (const [index, guard] of guards.entries()) addChoice(ended, index, await guard.end())
      return ended
    },
    whenQuiet(send, end) {
      const watches = guards.map((guard, index) =>
        guard.whenQuiet((parts) => send([{ type: 'choice', index, parts }]), end),
      )
      return {
        cancel() {
          for (const watch of watches) watch.cancel()
        },
      }
    },
    incidents: () => guards.flatMap((guard) => guard.incidents()),
  }
}

async function passing(parts: readonly ChatPart[], guards: readonly AnswerGuard[]): Promise<readonly ChatPart[]> {
  const passed: ChatPart[] = []
  for (const part of parts) {
    const guard = part.type === 'choice' ? guards[part.index] : undefined
    if (part.type === 'choice' && guard) addChoice(passed, part.index, await guard.pass(part.parts))
    else passed.push(part)
  }
  return passed
}

function addChoice(parts: ChatPart[], index: number, own: readonly ChatPart[]): void {
  if (own.length > 0) parts.push({ type: 'choice', index, parts: own })
}
