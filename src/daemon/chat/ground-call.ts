import type { Db } from '../db/database.ts'
import { ground, retrievalQuery } from '../knowledge/ground.ts'
import type { ProviderCall } from '../providers/provider.ts'
import type { Admitted } from './admit.ts'

/** A request with what was retrieved for it. */
export type Grounded = {
  call: Omit<ProviderCall, 'model' | 'timeouts'>
  ragEnabled: boolean
  documentsRetrieved: number
  sources: { source: string; score: number }[]
}

/** Retrieves for the last user turn; nothing for Zero-Knowledge or `use_rag: false`. */
export async function groundCall(admitted: Admitted, { db }: { db: Db }): Promise<Grounded> {
  const { conversation, index, useRag, temperature, temperatureIsDefault, maxTokens, stream, options, caller } =
    admitted
  const { system, messages } = conversation
  const asked = { temperature, temperatureIsDefault, maxTokens, stream, options }
  if (index.id === undefined || !useRag) {
    const call = { system, messages, grounding: null, ...asked }
    return { call, ragEnabled: false, documentsRetrieved: 0, sources: [] }
  }
  const question = retrievalQuery(messages)
  const found = await ground({ index: { id: index.id, name: index.name }, question, tenantId: caller.tenantId }, { db })
  return {
    call: {
      system: system === '' ? found.promptText : `${system}\n\n${found.promptText}`,
      messages,
      grounding: { index: index.name, passages: found.passages },
      ...asked,
    },
    ragEnabled: true,
    documentsRetrieved: found.documentsRetrieved,
    sources: found.sources,
  }
}
