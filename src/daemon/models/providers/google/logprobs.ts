import { isObject, type Json } from '../../../platform/text/json.ts'

/** One token and its log probability, in OpenAI's form. */
type Logprob = { token: string; logprob: number; bytes: number[] }

/**
 * Converts Google's `logprobsResult` to OpenAI's form, because callers that request log probabilities expect this form.
 * Returns undefined if there are no log probabilities. Chosen tokens without text or probability are dropped.
 */
export function toLogprobs(result: unknown): { content: (Logprob & { top_logprobs: Logprob[] })[] } | undefined {
  const { chosenCandidates, topCandidates } = object(result)
  if (!Array.isArray(chosenCandidates)) return undefined
  const tops = Array.isArray(topCandidates) ? topCandidates : []
  const content = chosenCandidates.flatMap((chosen, index) => {
    const { candidates } = object(tops[index])
    const alternatives = Array.isArray(candidates) ? candidates.flatMap(toLogprob) : []
    return toLogprob(chosen).map((logprob) => ({ ...logprob, top_logprobs: alternatives }))
  })
  return { content }
}

function toLogprob(candidate: unknown): Logprob[] {
  const { token, logProbability } = object(candidate)
  if (typeof token !== 'string' || typeof logProbability !== 'number') return []
  return [{ token, logprob: logProbability, bytes: [...Buffer.from(token)] }]
}

const object = (value: unknown): Json => (isObject(value) ? value : {})
