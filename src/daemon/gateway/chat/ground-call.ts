import { appendTo } from '../../../shared/lists.ts'
import { ground } from '../../knowledge/search/ground.ts'
import type { Match, Search, SearchOptions } from '../../knowledge/search/search.ts'
import { type Message, type System, textOf, withSystemText } from '../../models/conversation.ts'
import type { ProviderCall } from '../../models/provider.ts'
import { questionOf } from '../../platform/text/question.ts'
import { screenRetrievedPassages } from '../../safety/guards/passages.ts'
import { type GuardIncident, incidentRecords } from '../../safety/incidents/incident.ts'
import { mayCallUnder } from '../../safety/policies/enforce.ts'
import type { GovernedDeps } from '../governed/deps.ts'
import type { Screened } from '../governed/screen.ts'
import type { Stage } from '../governed/trail.ts'
import { withoutOptional } from './adapted-call.ts'
import type { ChatInput } from './input.ts'

/** A request with its retrieved passages. */
export type Grounded = {
  call: Omit<ProviderCall, 'model' | 'timeouts' | 'entitle'>
  ragEnabled: boolean
  documentsRetrieved: number
  /** Number of passages that the guards withheld from the model. */
  withheldPassages: number
  /** The models of knowledge search that the policy does not allow. */
  skippedModels: readonly string[]
  sources: { source: string; score: number }[]
}

type GroundDeps = Pick<GovernedDeps, 'search' | 'guards' | 'clock'>

const NO_MODELS: readonly string[] = []

/** Retrieves passages for the last user turn. Skips retrieval for Zero-Knowledge or `use_rag: false`. */
export async function groundCall(
  screened: Screened<ChatInput>,
  deps: GroundDeps,
  signal: AbortSignal,
): Promise<Stage<Grounded>> {
  const { conversation, index, caller, input, origin } = screened
  if (index.id === undefined || !input.useRag) {
    const call = callWith(screened, conversation.system, null)
    const value = {
      call,
      ragEnabled: false,
      documentsRetrieved: 0,
      withheldPassages: 0,
      skippedModels: NO_MODELS,
      sources: [],
    }
    return { facts: {}, value }
  }
  const incidents: GuardIncident[] = []
  const skipped = new Set<string>()
  const factsOf = (documentsRetrieved: number) => ({
    documentsRetrieved,
    incidents,
    found: incidents.length === 0 ? [] : [incidentRecords(incidents, origin, deps.clock.now())],
  })
  async function screenPassages(matches: readonly Match[]): Promise<readonly Match[]> {
    const { kept, incidents: found } = await screenRetrievedPassages(matches, screened.guarded, deps.guards)
    appendTo(incidents, found)
    return kept
  }
  // The index is not redacted, so the local search uses the original question. External models get the redacted
  // question.
  const question = questionOf(turnsOf(input.conversation.messages))
  const outside = questionOf(turnsOf(conversation.messages))
  try {
    const found = await ground(
      { index: { id: index.id, name: index.name }, question, outside, tenantId: caller.tenantId },
      {
        search: searchOf(screened, deps.search, { signal, onForbidden: (modelId) => skipped.add(modelId) }),
        screen: screenPassages,
      },
    )
    const { promptText, passages, documentsRetrieved, withheld: withheldPassages, sources } = found
    const system = withSystemText(conversation.system, promptText)
    const call = callWith(screened, system, { index: index.name, passages })
    return {
      facts: factsOf(documentsRetrieved),
      value: { call, ragEnabled: true, documentsRetrieved, withheldPassages, skippedModels: [...skipped], sources },
    }
  } catch (error) {
    return { facts: factsOf(0), refusal: { error } }
  }
}

// Copies each member explicitly: object spread costs more than the rest of this function.
function callWith(
  { conversation: { messages }, options: asked, policy, input }: Screened<ChatInput>,
  system: System,
  grounding: ProviderCall['grounding'],
): Grounded['call'] {
  const { temperature, temperatureIsDefault = false, maxTokens, stream } = input
  const { noTraining } = policy.document.privacyHeaders
  const options = asked && forbidsTools({ policy, input }) ? withoutOptional(asked) : asked
  return { system, messages, grounding, temperature, temperatureIsDefault, maxTokens, stream, options, noTraining }
}

/** Whether the request offers tools that the policy forbids, and that can be left out. */
export const forbidsTools = ({ policy: { document }, input }: Pick<Screened<ChatInput>, 'policy' | 'input'>): boolean =>
  input.uses?.optionalTools !== undefined && document.mode === 'enforce' && !document.serverTools.allowed

/** Returns the texts of the user's turns, oldest first. */
const turnsOf = (messages: readonly Message[]): string[] =>
  messages.filter(({ role }) => role === 'user').map(({ content }) => textOf(content))

/**
 * Applies the request's policy to searches. Passages are screened only after the search, so reranking models must not
 * read passages that rules may change.
 */
function searchOf(
  { policy, guarded }: Screened,
  search: Search,
  call: Pick<SearchOptions, 'signal' | 'onForbidden'>,
): Search {
  const mayCall = mayCallUnder(policy)
  const keepsPassages = guarded.rules.input.acting.length > 0
  return (index, query, limit, options) => search(index, query, limit, { mayCall, keepsPassages, ...call, ...options })
}
