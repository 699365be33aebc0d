// The safety module: guards, SMLTP policies (named sets of security rules), the prompt shield, and incidents (the
// findings of all these).
import { LRUCache } from 'lru-cache'
import type { ProviderRegistry } from '../models/registry.ts'
import { createFreshCache } from '../platform/db/fresh-cache.ts'
import type { Route } from '../platform/http/route.ts'
import type { Job } from '../platform/jobs/schedule.ts'
import type { Log } from '../platform/log.ts'
import type { MasterKey } from '../platform/secrets/seal.ts'
import type { ChangeDeps } from '../records/audit/change.ts'
import type { ShieldModelConfig } from './config.ts'
import { createGuards, type Guards } from './guards/guards.ts'
import { guardRuleRoutes } from './guards/rules/routes.ts'
import { incidentRoutes } from './incidents/routes.ts'
import { purgeIncidents } from './incidents/store.ts'
import { loadTenantPolicies } from './policies/catalogue.ts'
import { announceDefault } from './policies/gaps.ts'
import type { PolicyCatalogue } from './policies/policies.ts'
import { policyRoutes } from './policies/routes.ts'
import { openShieldModel } from './prompt-shield/model/shield-model.ts'
import { shieldPolicyRoutes } from './prompt-shield/policy-routes.ts'
import { scanRoutes } from './prompt-shield/scan-routes.ts'
import { findShieldPolicies } from './prompt-shield/store.ts'

/** Maximum age of a tenant's cached policies in a daemon. This is also the maximum delay before a change applies. */
export const POLICY_CACHE_MS = 2_000
/** Maximum age of a tenant's cached shield policies in a daemon. */
const SHIELD_POLICY_CACHE_MS = 2_000

const TENANTS_ANNOUNCED = 10_000

export { knownPolicies } from './policies/store.ts'
export { knownShieldPolicies } from './prompt-shield/store.ts'

export type SafetyRoom = {
  guards: Guards
  policies: PolicyCatalogue
  routes: Route[]
  jobs: Job[]
  close(): Promise<void>
}

/**
 * Opens the module. Loads the operator's model for the prompt shield, if one is configured.
 * @param deps `access`: the dependencies that every administrative change needs
 * @throws Error that says why the model cannot be loaded
 */
export async function openSafety(
  {
    shieldModel: named,
    shieldProgram,
  }: { shieldModel?: ShieldModelConfig | undefined; shieldProgram?: URL | undefined },
  deps: { access: ChangeDeps; masterKey: MasterKey; providers: ProviderRegistry; log: Log },
): Promise<SafetyRoom> {
  const { access, masterKey, providers, log } = deps
  const { db, clock } = access
  const model = named && (await openShieldModel(named, { clock, log, program: shieldProgram }))
  const shieldPolicies = createFreshCache({
    clock,
    maxAgeMs: SHIELD_POLICY_CACHE_MS,
    load: (tenantId) => findShieldPolicies(db, tenantId),
  })
  const announced = new LRUCache<string, true>({ max: TENANTS_ANNOUNCED })
  const policies = createFreshCache({
    clock,
    maxAgeMs: POLICY_CACHE_MS,
    load: async (tenantId) => {
      const own = await loadTenantPolicies(db, providers, tenantId)
      if (own.activeId === undefined && !announced.has(tenantId)) {
        announced.set(tenantId, true)
        announceDefault(tenantId, own, log)
      }
      return own
    },
  })
  const shieldModel = model && { ...model, flagAt: named.flagAt, blockAt: named.blockAt }
  const guards = createGuards({ db, clock, log, masterKey, shieldPolicies, providers, shieldModel })
  return {
    guards,
    policies,
    routes: [
      ...guardRuleRoutes({ ...access, guardRules: guards.tenantRules }),
      ...scanRoutes({ guards, policies, clock }),
      ...shieldPolicyRoutes({ ...access, shieldPolicies }),
      ...incidentRoutes({ db }),
      ...policyRoutes({ ...access, policies }),
    ],
    jobs: [{ name: 'purge-incidents', cron: '30 * * * *', run: () => purgeIncidents({ db, clock }) }],
    close: async () => model?.close(),
  }
}
