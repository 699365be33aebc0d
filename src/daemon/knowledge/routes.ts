import type { z } from 'zod'
import { SEARCH_CONTENT_CHARS } from '../../shared/spec-limits.ts'
import { FlatError } from '../../shared/wire/common.ts'
import { DiscoverIndexesResponse, SearchQuery, SearchResponse, ZERO_KNOWLEDGE } from '../../shared/wire/indexes.ts'
import { type Route, reply, route } from '../http/route.ts'
import { characterBorder } from '../text/words.ts'
import { type DocumentDeps, documentRoutes } from './document-routes.ts'
import { indexRoutes } from './index-routes.ts'
import { namespaceOf, typeOf } from './index-view.ts'
import { type Match, searchPassages } from './search.ts'
import { getUsableIndex, listUsableIndexes } from './usable-index.ts'

/** The routes of knowledge bases (named-endpoints §4, §19). */
export function knowledgeRoutes(deps: DocumentDeps): Route[] {
  const { db } = deps
  return [
    ...indexRoutes(deps),
    ...documentRoutes(deps),
    route({
      method: 'GET',
      path: '/api/external/indexes',
      access: 'key',
      errors: 'flat',
      summary: 'Knowledge bases this key may query',
      tags: ['Indexes'],
      responses: {
        200: { description: 'What chat takes as `index`', schema: DiscoverIndexesResponse },
      },
      async handle({ caller }) {
        const { allowedIndexes } = caller.settings
        const indexes = await listUsableIndexes(db, caller)
        return reply(200, {
          success: true,
          indexes: [
            {
              id: ZERO_KNOWLEDGE,
              name: ZERO_KNOWLEDGE,
              type: 'system',
              description: 'Answers by the model alone, without retrieval',
            },
            ...indexes.map((index) => ({
              id: index.name,
              name: index.name,
              type: typeOf(index),
              namespace: namespaceOf(index),
              description: index.description,
            })),
          ],
          restrictions: { allowed_indexes: allowedIndexes.length === 0 ? 'all user indexes' : allowedIndexes },
        } satisfies z.input<typeof DiscoverIndexesResponse>)
      },
    }),
    route({
      method: 'GET',
      path: '/api/external/indexes/{indexName}/search',
      access: 'key',
      errors: 'flat',
      summary: 'Search a knowledge base',
      tags: ['Indexes'],
      query: SearchQuery,
      responses: {
        200: { description: 'The best passages, best first', schema: SearchResponse },
        400: { description: 'A parameter is missing or wrong', schema: FlatError },
        403: { description: 'The key may not use an index of this name', schema: FlatError },
        404: { description: 'No index of this name that the key may read', schema: FlatError },
      },
      async handle({ caller, params, query: { query, top_k, min_score }, requestId }) {
        const index = await getUsableIndex(db, caller, params.indexName)
        const found = await searchPassages(db, caller.tenantId, index.id, query, top_k)
        const matches = found.filter(({ score }) => score >= min_score).map(toSearchMatch)
        return reply(200, {
          success: true,
          request_id: requestId,
          query,
          results: { matches, total: matches.length, top_k },
          index: { name: index.name, namespace: namespaceOf(index) },
        } satisfies z.input<typeof SearchResponse>)
      },
    }),
  ]
}

function toSearchMatch(match: Match, at: number): z.input<typeof SearchResponse>['results']['matches'][number] {
  return {
    rank: at + 1,
    score: match.score,
    source: match.source,
    content: match.body.slice(0, characterBorder(match.body, SEARCH_CONTENT_CHARS)),
    metadata: { page: match.page, chunkIndex: match.position, title: match.title, documentId: match.documentId },
  }
}
