import { LRUCache } from 'lru-cache'
import type { Clock } from '../../../../shared/time.ts'
import type { GuardRule } from '../../../../shared/wire/guard-rules.ts'
import type { Db } from '../../../platform/db/db.ts'
import { createFreshCache, type FreshCache } from '../../../platform/db/fresh-cache.ts'
import type { PlannedRule } from '../plan.ts'
import { compileRules } from './compile.ts'
import { findGuardRules } from './store.ts'

/** Maximum age of a tenant's cached rules in a daemon. This is also the maximum delay before a change applies. */
export const GUARD_RULE_CACHE_MS = 2_000

/** The rules of a tenant: all rule documents, and the compiled enabled rules. */
export type OwnRules = { documents: readonly GuardRule[]; planned: readonly PlannedRule[] }

export type TenantRules = FreshCache<OwnRules>

const TENANTS_COMPILED = 1_000

/**
 * Creates a cache of each tenant's compiled rules. Cached rules are at most GUARD_RULE_CACHE_MS old. The cache returns
 * the same object until the content changes, so callers can use the object as a cache key.
 */
export function createTenantRules({ db, clock }: { db: Db; clock: Clock }): TenantRules {
  const compiled = new LRUCache<string, { said: string; rules: OwnRules }>({ max: TENANTS_COMPILED })
  return createFreshCache({
    clock,
    maxAgeMs: GUARD_RULE_CACHE_MS,
    async load(tenantId) {
      const documents = await findGuardRules(db, tenantId)
      const said = JSON.stringify(documents)
      const known = compiled.get(tenantId)
      if (known?.said === said) return known.rules
      const rules = { documents, planned: compileRules(documents) }
      compiled.set(tenantId, { said, rules })
      return rules
    },
  })
}
