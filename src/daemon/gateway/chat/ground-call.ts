import { ground } from '../../knowledge/search/ground.ts'
import type { Search } from '../../knowledge/search/search.ts'
import type { ProviderCall } from '../../models/provider.ts'
import { questionOf } from '../../platform/text/question.ts'
import { mayAskUnder } from '../../safety/policies/enforce.ts'
import { type ScreenDeps, type Screened, turnsOf } from './screen.ts'
import { screenPassages } from './screen-passages.ts'

/** A request with what was retrieved for it. */
export type Grounded = {
  call: Omit<ProviderCall, 'model' | 'timeouts' | 'entitle'>
  ragEnabled: boolean
  documentsRetrieved: number
  /** How many passages the guards kept from the model. */
  withheldPassages: number
  sources: { source: string; score: number }[]
}

/** Passages are screened after the search, so under rules that change them no model gets to read them before. */
function searchOf({ policy, rules }: Screened, search: Search): Search {
  const mayAsk = mayAskUnder(policy)
  const keepsPassages = rules.input.acting.length > 0
  return (index, query, limit, options) => search(index, query, limit, { mayAsk, keepsPassages, ...options })
}

/** Retrieves for the last user turn; nothing for Zero-Knowledge or `use_rag: false`. */
export async function groundCall(screened: Screened, deps: ScreenDeps & { search: Search }): Promise<Grounded> {
  const { conversation, index, useRag, temperature, temperatureIsDefault, maxTokens, stream, options, caller } =
    screened
  const { noTraining } = screened.policy.document.privacyHeaders
  const { system, messages } = conversation
  // Member by member: spreading costs more than the rest of this function.
  const callWith = (system: string, grounding: ProviderCall['grounding']): Grounded['call'] => {
    return { system, messages, grounding, temperature, temperatureIsDefault, maxTokens, stream, options, noTraining }
  }
  if (index.id === undefined || !useRag) {
    const call = callWith(system, null)
    return { call, ragEnabled: false, documentsRetrieved: 0, withheldPassages: 0, sources: [] }
  }
  // What the index holds is not redacted, so it is searched for what was said; models read what is left of it.
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
