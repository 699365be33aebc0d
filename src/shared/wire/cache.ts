import { z } from 'zod'

/** The request header that uses or skips the answer cache. */
export const CACHE_HEADER = 'X-AIGW-Cache'

/** `use`: a stored answer may be returned. `refresh`: the model is called, and its answer replaces the stored answer. */
export const CACHE_REQUESTS = ['use', 'refresh', 'off'] as const
export type CacheRequest = (typeof CACHE_REQUESTS)[number]

/** Whether requests under a policy may use the cache. `allowed`: if the key or the request asks for it. */
export const CACHE_MODES = ['off', 'allowed', 'on'] as const

/** How the answer cache was used. It is present only if the policy, the key or the request asks for the cache. */
export const CacheUse = z
  .object({
    status: z.enum(['hit', 'coalesced', 'miss', 'refreshed', 'off']).meta({
      description:
        '`hit`: a stored answer. `coalesced`: the answer of an identical request that was running. `miss` and `refreshed`: the model was called, and a complete answer is stored. `off`: the cache was not used',
    }),
    age_s: z
      .int()
      .optional()
      .meta({ description: 'Seconds since the answer was stored; only for `hit` and `coalesced`' }),
    original: z.string().optional().meta({
      description: 'The bundle id of the request whose model call created the answer; only for `hit` and `coalesced`',
    }),
    why: z.enum(['operator', 'policy', 'request']).optional().meta({
      description:
        'Only for `off`. `operator`: the cache is disabled. `policy`: the policy forbids it. `request`: the answer depends on server tools or on the content of addresses',
    }),
  })
  .meta({ id: 'CacheUse' })
export type CacheUse = z.infer<typeof CacheUse>

/** GET /api/admin/cache */
export const ShowCacheResponse = z.object({
  success: z.literal(true),
  cache: z
    .object({
      enabled: z.boolean().meta({ description: 'Whether the operator enabled the cache' }),
      ttlSeconds: z.int(),
      entries: z.int().meta({ description: 'Stored answers of this tenant that have not expired' }),
      bytes: z.int().meta({ description: 'Their size in the store' }),
      maxBytes: z.int(),
      oldestAt: z.string().nullable().meta({ description: 'When the oldest of them was stored' }),
    })
    .meta({ id: 'AnswerCache' }),
})
export type ShowCacheResponse = z.infer<typeof ShowCacheResponse>

/** DELETE /api/admin/cache */
export const ClearCacheResponse = z.object({
  success: z.literal(true),
  message: z.string(),
  deleted: z.int().meta({ description: 'The number of deleted answers' }),
})
export type ClearCacheResponse = z.infer<typeof ClearCacheResponse>
