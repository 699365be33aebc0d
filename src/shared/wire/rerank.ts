// Ranking documents, POST /v1/rerank, in the form of Cohere, Jina and compatible servers.
import { z } from 'zod'
import { RERANK_DOCUMENTS } from '../spec-limits.ts'
import { GatewayExtension, SHARED_CHAT_FIELDS } from './chat.ts'
import { anObject, flag, optional } from './common.ts'

export const RERANK_PATH = '/api/external/v1/rerank'

const { model, smltp_policy, prompt_shield, user_id } = SHARED_CHAT_FIELDS

export const RerankRequest = z
  .looseObject(
    {
      ...{ model, smltp_policy, prompt_shield, user_id },
      query: z.string({ error: 'query must be a string' }).min(1, { error: 'query must not be empty' }),
      documents: z
        .array(
          z
            .union([z.string(), z.object({ text: z.string() })], {
              error: 'each document must be a text or {text}',
            })
            .transform((document) => (typeof document === 'string' ? document : document.text)),
          { error: 'documents must be an array' },
        )
        .min(1, { error: 'documents must not be empty' })
        .max(RERANK_DOCUMENTS, { error: `documents may have at most ${RERANK_DOCUMENTS} entries` }),
      top_n: optional(z.int({ error: 'top_n must be a whole number' }).min(1, { error: 'top_n must be at least 1' })),
      return_documents: optional(flag('return_documents')),
    },
    anObject,
  )
  .meta({ id: 'RerankRequest' })
export type RerankRequest = z.infer<typeof RerankRequest>

export const RerankResponse = z
  .object({
    id: z.string(),
    object: z.literal('list'),
    model: z.string(),
    results: z
      .array(
        z.object({
          index: z.int().meta({ description: 'The position in `documents`' }),
          relevance_score: z.number(),
          document: z.object({ text: z.string() }).optional(),
        }),
      )
      .meta({ description: 'The best first' }),
    usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
    gateway: GatewayExtension,
  })
  .meta({ id: 'RerankResponse' })
export type RerankResponse = z.infer<typeof RerankResponse>
