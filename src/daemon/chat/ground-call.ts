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
  const { conversation, index, useRag, temperature, maxTokens, stream, caller } = admitted
  const plain = { messages: conversation.messages, temperature, maxTokens, stream }
  if (index.id === undefined || !useRag) {
    const call = { ...plain, system: conversation.system, grounding: null }
    return { call, ragEnabled: false, documentsRetrieved: 0, sources: [] }
  }
  const question = retrievalQuery(conversation.messages)
  const found = await ground({ index: { id: index.id, name: index.name }, question, tenantId: caller.tenantId }, { db })
  const system = [conversation.system, found.promptText].filter((text) => text !== '').join('\n\n')
  return {
    call: { ...plain, system, grounding: { index: index.name, passages: found.passages } },
    ragEnabled: true,
    documentsRetrieved: found.documentsRetrieved,
    sources: found.sources,
  }
}
