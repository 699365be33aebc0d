import type { Reasoning, ToolCall } from '../../models/conversation.ts'
import type { ChatPart, NativeKind } from '../../models/provider.ts'

/**
 * One item of a model's output. `logprobs` contains the logprobs of the item's parts, in order of arrival. The
 * `arguments` of an annotation are its JSON.
 */
export type AnswerItem =
  | { type: 'text'; text: string; logprobs: unknown[]; annotations: ToolCall[] }
  | { type: 'reasoning'; step: Reasoning }
  | { type: 'tool_call'; call: ToolCall }
  /** `arguments` is the JSON of a block or citation of the provider's own API. */
  | { type: 'native'; kind: NativeKind; call: ToolCall }

type ReasoningPart = Extract<ChatPart, { type: 'reasoning' }>

/** Assembles the parts of an answer into items. The items are in the order in which their first parts arrived. */
export function createAnswerItems(): { readonly all: readonly AnswerItem[]; add(part: ChatPart): void } {
  const all: AnswerItem[] = []
  const calls = new Map<number, ToolCall>()
  return {
    all,
    add(part) {
      const last = all.at(-1)
      if (part.type === 'text') {
        const logprobs = part.logprobs === undefined ? [] : [part.logprobs]
        if (last?.type !== 'text') all.push({ type: 'text', text: part.text, logprobs, annotations: [] })
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
        if (part.native === 'annotation') {
          const text = all.findLast((item) => item.type === 'text')
          text?.annotations.push(call)
        } else all.push(part.native ? { type: 'native', kind: part.native, call } : { type: 'tool_call', call })
      }
    },
  }
}

/** Adds a part to `step`. If `step` is undefined, sealed or from another origin, begins a new step. */
export const withPart = (step: Reasoning | undefined, part: ReasoningPart): Reasoning => ({
  origin: part.origin ?? '',
  text: step && goesOn(step, part) ? step.text + part.text : part.text,
  signature: part.signature,
  data: part.data,
})

/**
 * Whether the step is signed or encrypted. A signed or encrypted step is complete and must be returned to its provider
 * unchanged.
 */
export const isSealed = ({ signature, data }: Reasoning): boolean => signature !== undefined || data !== undefined

const goesOn = (step: Reasoning, { origin = '' }: ReasoningPart) => step.origin === origin && !isSealed(step)
