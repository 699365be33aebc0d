import type { ChatPart, ProviderCall } from '../../provider.ts'

type Answer = AsyncIterable<readonly ChatPart[]>

/**
 * Applies `parallel_tool_calls: false` to the answer of an API that does not have it: only the first tool call remains.
 * The model makes the others again when it has the result.
 */
export function withOneCall({ options }: ProviderCall, answer: Answer): Answer {
  return options?.parallelToolCalls === false && options.tools?.length ? firstCallOf(answer) : answer
}

async function* firstCallOf(answer: Answer): Answer {
  const choices = new Map<number, OneCall>()
  const one = new OneCall()
  for await (const batch of answer) {
    const kept = one.keep(batch).map((part): ChatPart => {
      if (part.type !== 'choice') return part
      const choice = choices.get(part.index) ?? new OneCall()
      choices.set(part.index, choice)
      return { ...part, parts: choice.keep(part.parts) }
    })
    if (kept.length > 0) yield kept
  }
}

/** Keeps the first call of one answer. */
class OneCall {
  readonly #omitted = new Set<number>()
  #first: number | undefined

  keep(parts: readonly ChatPart[]): readonly ChatPart[] {
    return parts.filter((part) => {
      if (part.type !== 'tool_call') return true
      if (part.name !== undefined && !part.native) {
        this.#first ??= part.index
        if (part.index !== this.#first) this.#omitted.add(part.index)
      }
      return !this.#omitted.has(part.index)
    })
  }
}
