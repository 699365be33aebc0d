// The routes with which a tenant's administrators inspect and clear the answer cache.
import { isoTime } from '../../../shared/time.ts'
import { ClearCacheResponse, ShowCacheResponse } from '../../../shared/wire/cache.ts'
import { type Route, reply, route } from '../../platform/http/route.ts'
import { type ChangeDeps, change } from '../../records/audit/change.ts'
import type { CacheConfig } from '../config.ts'
import type { AnswerCache } from './answer-cache.ts'
import { deleteAllEntries, sizeOf } from './store.ts'

const PATH = '/api/admin/cache'

/** @param cache undefined if the operator disabled the cache. Answers from before can still be inspected and deleted */
export function cacheRoutes(
  deps: ChangeDeps,
  { enabled, ttlMs, maxBytes }: CacheConfig,
  cache: Pick<AnswerCache, 'forget'> | undefined,
): Route[] {
  const { db, clock } = deps
  const common: Pick<Route, 'access' | 'errors' | 'tags'> = {
    access: 'settings',
    errors: 'structured',
    tags: ['Answer cache'],
  }
  return [
    route({
      ...common,
      method: 'GET',
      path: PATH,
      summary: 'Show the settings and the size of the answer cache',
      responses: { 200: { description: 'The answer cache of this tenant', schema: ShowCacheResponse } },
      async handle({ caller }) {
        const size = await sizeOf(db, caller.tenantId, isoTime(clock.now()))
        const settings = { enabled, ttlSeconds: Math.floor(ttlMs / 1000), maxBytes }
        return reply(200, { success: true, cache: { ...settings, ...size } } satisfies ShowCacheResponse)
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      path: PATH,
      summary: 'Delete all stored answers of the tenant. Requests that are running may still store theirs',
      responses: { 200: { description: 'The answers were deleted', schema: ClearCacheResponse } },
      async handle(context) {
        const { tenantId } = context.caller
        const deleted = await change(deps, context, async ({ tx, record }) => {
          const count = await deleteAllEntries(tx, tenantId)
          await record({
            type: 'cache_management',
            operation: 'delete',
            resourceType: 'answer_cache',
            resourceId: tenantId,
            description: 'cleared the answer cache',
            metadata: { deleted: count },
          })
          return count
        })
        cache?.forget(tenantId)
        return reply(200, { success: true, message: 'Answer cache cleared', deleted } satisfies ClearCacheResponse)
      },
    }),
  ]
}
