// Records the answers of chats for the answer cache, as the model gave them. Guards inspect each replay anew.
import { type ChatPart, ProviderError } from '../../models/provider.ts'
import { parseObject } from '../../platform/text/json.ts'
import type { Caching } from '../governed/operation.ts'
import type { Begun } from './begin-answer.ts'
import type { Grounded } from './ground-call.ts'
import type { ChatInput } from './input.ts'
import { limitOf } from './output-limit.ts'

/** Pieces of one text are joined up to this length. A replayed stream sends them as they are stored. */
const PIECE_CHARS = 4_096
/** The version of `keyOf` and of the recorded form. Increase it if either changes. */
const FORMAT = 2

export const CHAT_CACHING: Caching<ChatInput, Grounded, Begun> = {
  keyOf(running, attempt, deps) {
    const limit = limitFrom(() => limitOf(running, attempt, deps))
    if (!limit) return undefined
    const { screened, prepared } = running
    // A streamed answer and a whole one have the same content. The system prompt of a call surrounds the passages with
    // a random mark, so the key contains the prompt without passages, and the passages themselves (`grounding`).
    const { stream: _, system: _marked, ...call } = prepared.call
    const { system } = screened.conversation
    return [FORMAT, limit.tokens ?? null, limit.thinks, system, prepared.withheldPassages, call]
  },
  record({ firstBatch, rest, limit }, maxBytes) {
    const recorded = new RecordedParts(maxBytes)
    recorded.add(firstBatch)
    return {
      begun: { firstBatch, rest: recording(rest, recorded), limit },
      complete(usage) {
        const { parts } = recorded
        const end = parts.at(-1)
        if (end?.type !== 'end' || !hasWholeCalls(parts)) return undefined
        const json = JSON.stringify([...parts.slice(0, -1), { ...end, usage }])
        return Buffer.byteLength(json) > maxBytes ? undefined : json
      },
    }
  },
  replay: (running, attempt, recorded, deps) => ({
    firstBatch: JSON.parse(recorded) as ChatPart[],
    rest: NOTHING_MORE,
    limit: limitOf(running, attempt, deps),
  }),
}

/**
 * Whether each tool call comes in one piece after another, and its arguments are JSON. A stream forwards the pieces
 * unchecked. Other calls cannot be rendered as a whole answer.
 */
function hasWholeCalls(parts: readonly ChatPart[]): boolean {
  const texts = new Map<number, string>()
  let open: number | undefined
  for (const part of parts) {
    if (part.type === 'choice' && !hasWholeCalls(part.parts)) return false
    if (part.type !== 'tool_call') continue
    if (part.index !== open && texts.has(part.index)) return false
    open = part.index
    texts.set(part.index, (texts.get(part.index) ?? '') + part.arguments)
  }
  return [...texts.values()].every((text) => text.trim() === '' || parseObject(text) !== undefined)
}

const NOTHING_MORE: Begun['rest'] = { next: () => Promise.resolve({ done: true, value: undefined }) }

/** Returns undefined if the model cannot be called, so that the call itself reports the failure. */
function limitFrom<Limit>(limit: () => Limit): Limit | undefined {
  try {
    return limit()
  } catch (error) {
    if (error instanceof ProviderError) return undefined
    throw error
  }
}

function recording(rest: Begun['rest'], recorded: RecordedParts): Begun['rest'] {
  return {
    async next() {
      const step = await rest.next()
      if (!step.done) recorded.add(step.value)
      return step
    },
    async return() {
      return (await rest.return?.()) ?? { done: true, value: undefined }
    },
  }
}

/** The parts of an answer so far. Adjacent pieces of one text are joined. */
class RecordedParts {
  readonly #maxChars: number
  #parts: ChatPart[] = []
  /** The parts of each of several answers. */
  readonly #choices = new Map<number, RecordedParts>()
  #chars = 0
  #isTooLong = false

  constructor(maxChars: number) {
    this.#maxChars = maxChars
  }

  /** Empty if the answer is too long. */
  get parts(): readonly ChatPart[] {
    if (this.#isTooLong || this.#choices.size === 0) return this.#parts
    const choices = [...this.#choices].map(([index, { parts }]): ChatPart => ({ type: 'choice', index, parts }))
    return [...choices, ...this.#parts]
  }

  add(parts: readonly ChatPart[]): void {
    for (const part of parts) {
      // Later counts replace earlier ones, and the end has the final counts.
      if (this.#isTooLong || part.type === 'usage') continue
      this.#chars += charsOf(part)
      if (this.#chars > this.#maxChars) {
        this.#isTooLong = true
        this.#parts = []
      } else this.#append(part)
    }
  }

  #append(part: ChatPart): void {
    if (part.type === 'choice') {
      const choice = this.#choices.get(part.index) ?? new RecordedParts(this.#maxChars)
      this.#choices.set(part.index, choice)
      choice.add(part.parts)
      return
    }
    const last = this.#parts.at(-1)
    if (last?.type === 'text' && part.type === 'text') {
      const isPlain = last.logprobs === undefined && part.logprobs === undefined
      if (isPlain && last.text.length < PIECE_CHARS) {
        last.text += part.text
        return
      }
    }
    if (last?.type === 'tool_call' && part.type === 'tool_call') {
      const goesOn = last.index === part.index && part.id === undefined && part.native === undefined
      if (goesOn && last.arguments.length < PIECE_CHARS) {
        last.arguments += part.arguments
        return
      }
    }
    if (last?.type === 'reasoning' && part.type === 'reasoning' && last.origin === part.origin) {
      if (isUnsigned(last) && isUnsigned(part) && last.text.length < PIECE_CHARS) {
        last.text += part.text
        return
      }
    }
    this.#parts.push({ ...part })
  }
}

const isUnsigned = ({ signature, data }: Extract<ChatPart, { type: 'reasoning' }>): boolean =>
  signature === undefined && data === undefined

function charsOf(part: ChatPart): number {
  switch (part.type) {
    case 'text':
      return part.text.length + (part.logprobs === undefined ? 0 : JSON.stringify(part.logprobs).length)
    case 'reasoning':
      return part.text.length + (part.signature?.length ?? 0) + (part.data?.length ?? 0)
    case 'tool_call':
      return part.arguments.length
    case 'choice':
      return part.parts.reduce((chars, own) => chars + charsOf(own), 0)
    default:
      return 0
  }
}
