import { ground } from '../../knowledge/search/ground.ts'
import type { Search } from '../../knowledge/search/search.ts'
import type { ProviderCall } from '../../models/provider.ts'
import { questionOf } from '../../platform/text/question.ts'
import { mayAskUnder } from '../../safety/policies/enforce.ts'
import { type ScreenDeps, type Screened, turnsOf } from './screen.ts'
import { screenPassages } from './screen-passages.ts'

/** A request with its retrieved passages. */
export type Grounded = {
  call: Omit<ProviderCall, 'model' | 'timeouts' | 'entitle'>
  ragEnabled: boolean
  documentsRetrieved: number
  /** Number of passages that the guards withheld from the model. */
  withheldPassages: number
  sources: { source: string; score: number }[]
}

/**
 * Applies the request's policy to searches. Passages are screened only after the search, so reranking models must not
 * read passages that rules may change.
 */
function searchOf({ policy, rules }: Screened, search: Search): Search {
  const mayAsk = mayAskUnder(policy)
  const keepsPassages = rules.input.acting.length > 0
  return (index, query, limit, options) => search(index, query, limit, { mayAsk, keepsPassages, ...options })
}

/** Retrieves passages for the last user turn, except for Zero-Knowledge or `use_rag: false`. */
export async function groundCall(screened: Screened, deps: ScreenDeps & { search: Search }): Promise<Grounded> {
  const { conversation, index, useRag, temperature, temperatureIsDefault, maxTokens, stream, options, caller } =
    screened
  const { noTraining } = screened.policy.document.privacyHeaders
  const { system, messages } = conversation
  // Copied member by member: object spread costs more than the rest of this function.
  const callWith = (system: string, grounding: ProviderCall['grounding']): Grounded['call'] => {
    return { system, messages, grounding, temperature, temperatureIsDefault, maxTokens, stream, options, noTraining }
  }
  if (index.id === undefined || !useRag) {
    const call = callWith(system, null)
    return { call, ragEnabled: false, documentsRetrieved: 0, withheldPassages: 0, sources: [] }
  }
  // The index is not redacted, so the local search uses the original question. External models get the redacted
  // question.
  const question = questionOf(turnsOf(screened.asSent))
  const outside = questionOf(turnsOf(messages))
  const found = await ground(
    { index: { id: index.id, name: index.name }, question, outside, tenantId: caller.tenantId },
    { search: searchOf(screened, deps.search), screen: (matches) => screenPassages(matches, screened, deps) },
  )
  return {
    call: callWith(system === '' ? found.promptText : `${system}\n\n${found.promptText}`, {
      index: index.name,
      passages: found.passages,
    }),
    ragEnabled: true,
    documentsRetrieved: found.documentsRetrieved,
    withheldPassages: found.withheld,
    sources: found.sources,
  }
}
