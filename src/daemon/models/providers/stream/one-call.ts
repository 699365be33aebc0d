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
  let first: number | undefined
  const omitted = new Set<number>()
  for await (const batch of answer) {
    const kept = batch.filter((part) => {
      if (part.type !== 'tool_call') return true
      if (part.name !== undefined && !part.native) {
        first ??= part.index
        if (part.index !== first) omitted.add(part.index)
      }
      return !omitted.has(part.index)
    })
    if (kept.length > 0) yield kept
  }
}
