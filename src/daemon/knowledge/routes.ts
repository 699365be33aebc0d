import type { z } from 'zod'
import { SEARCH_CONTENT_CHARS } from '../../shared/spec-limits.ts'
import { FlatError } from '../../shared/wire/common.ts'
import { DiscoverIndexesResponse, SearchQuery, SearchResponse, ZERO_KNOWLEDGE } from '../../shared/wire/indexes.ts'
import { type Route, reply, route } from '../platform/http/route.ts'
import { type DocumentDeps, documentRoutes } from './indexes/document-routes.ts'
import { getReadableIndex, listReadableIndexes } from './indexes/index-access.ts'
import { type IndexDeps, indexRoutes } from './indexes/index-routes.ts'
import { namespaceOf, typeOf } from './indexes/index-view.ts'
import { excerptOf } from './search/excerpt.ts'
import { screenMatches } from './search/match-screening.ts'
import { rulesOfCall } from './search/rules-of-call.ts'
import type { Match, Search } from './search/search.ts'

const SEARCH_PATH = '/api/external/indexes/{indexName}/search'

/** Defines the routes of knowledge bases. */
export function knowledgeRoutes({ search, ...deps }: DocumentDeps & IndexDeps & { search: Search }): Route[] {
  const { db } = deps
  return [
    ...indexRoutes(deps),
    ...documentRoutes(deps),
    route({
      method: 'GET',
      path: '/api/external/indexes',
      access: 'key',
      errors: 'flat',
      summary: 'List the knowledge bases that this key may query',
      tags: ['Indexes'],
      responses: {
        200: { description: 'The values that chat accepts as `index`', schema: DiscoverIndexesResponse },
      },
      async handle({ caller }) {
        const { allowedIndexes } = caller.settings
        const indexes = await listReadableIndexes(db, caller)
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
      path: SEARCH_PATH,
      access: 'key',
      errors: 'flat',
      summary: 'Search a knowledge base',
      tags: ['Indexes'],
      query: SearchQuery,
      unnamedParameters: true,
      responses: {
        200: { description: 'The best passages, best first', schema: SearchResponse },
        400: { description: 'A parameter is missing or invalid', schema: FlatError },
        403: { description: 'The key may not use an index with this name', schema: FlatError },
        404: { description: 'The index does not exist, or the key may not read it', schema: FlatError },
        503: { description: 'The policy of the key was deleted, or too many searches wait', schema: FlatError },
      },
      async handle({ caller, params, query: { query, top_k, min_score }, requestId, signal }) {
        const index = await getReadableIndex(db, caller, params.indexName)
        const rules = await rulesOfCall({ caller, requestId, endpoint: SEARCH_PATH }, deps)
        const skipped = new Set<string>()
        const onForbidden = (modelId: string) => skipped.add(modelId)
        const options = { ...(await rules.searchOptions(query)), onForbidden, signal }
        const found = await search({ tenantId: caller.tenantId, indexId: index.id }, query, top_k, options)
        const fitting = found.filter(({ score }) => score >= min_score)
        const matches = (await screenMatches(fitting, rules)).map((match, at) => toSearchMatch(match, at, query))
        return reply(200, {
          success: true,
          request_id: requestId,
          query,
          results: {
            matches,
            total: matches.length,
            top_k,
            ...(skipped.size > 0 && { skipped_models: [...skipped] }),
          },
          index: { name: index.name, namespace: namespaceOf(index) },
        } satisfies z.input<typeof SearchResponse>)
      },
    }),
  ]
}

type SearchMatch = z.input<typeof SearchResponse>['results']['matches'][number]

function toSearchMatch(match: Match, at: number, query: string): SearchMatch {
  return {
    rank: at + 1,
    score: match.score,
    source: match.source,
    content: excerptOf(match.body, query, SEARCH_CONTENT_CHARS),
    metadata: { page: match.page, chunkIndex: match.position, title: match.title, documentId: match.documentId },
  }
}
