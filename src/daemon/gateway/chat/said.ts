import type { Reasoning, ToolCall } from '../../models/conversation.ts'
import type { ChatPart } from '../../models/provider.ts'

/** One thing a model has said. `logprobs` are those of its pieces, as they came. */
export type Said =
  | { type: 'text'; text: string; logprobs: unknown[] }
  | { type: 'reasoning'; step: Reasoning }
  | { type: 'tool_call'; call: ToolCall }

type ReasoningPart = Extract<ChatPart, { type: 'reasoning' }>

/** Takes the parts of an answer and puts what they say together, in the order in which it was begun. */
export function createSaid(): { readonly all: readonly Said[]; add(part: ChatPart): void } {
  const all: Said[] = []
  const calls = new Map<number, ToolCall>()
  return {
    all,
    add(part) {
      const last = all.at(-1)
      if (part.type === 'text') {
        const logprobs = part.logprobs === undefined ? [] : [part.logprobs]
        if (last?.type !== 'text') all.push({ type: 'text', text: part.text, logprobs })
        else {
          last.text += part.text
          last.logprobs.push(...logprobs)
        }
      } else if (part.type === 'reasoning') {
        if (last?.type === 'reasoning' && goesOn(last.step, part)) last.step = withPart(last.step, part)
        else all.push({ type: 'reasoning', step: withPart(undefined, part) })
      } else if (part.type === 'tool_call') {
        const known = calls.get(part.index)
        if (known) {
          known.arguments += part.arguments
          return
        }
        const call = { id: part.id ?? '', name: part.name ?? '', arguments: part.arguments }
        calls.set(part.index, call)
        all.push({ type: 'tool_call', call })
      }
    },
  }
}

/** The step that a part of reasoning belongs to: the one under way, as far as it has come, or another. */
export const withPart = (step: Reasoning | undefined, part: ReasoningPart): Reasoning => ({
  origin: part.origin ?? '',
  text: step && goesOn(step, part) ? step.text + part.text : part.text,
  signature: part.signature,
  data: part.data,
})

/** Signed or encrypted: it is complete, and its origin wants it back. */
export const isSealed = ({ signature, data }: Reasoning): boolean => signature !== undefined || data !== undefined

const goesOn = (step: Reasoning, { origin = '' }: ReasoningPart) => step.origin === origin && !isSealed(step)
