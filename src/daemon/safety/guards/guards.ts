import type { KeyObject } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../../shared/time.ts'
import type { ShieldPolicy } from '../../../shared/wire/shield.ts'
import type { ProviderRegistry } from '../../models/registry.ts'
import type { Db } from '../../platform/db/db.ts'
import type { FreshCache } from '../../platform/db/fresh-cache.ts'
import type { Log } from '../../platform/log.ts'
import type { MasterKey } from '../../platform/secrets/seal.ts'
import type { AppliedPolicy } from '../policies/policies.ts'
import { createJudge } from '../prompt-shield/judge.ts'
import type { ShieldModel } from '../prompt-shield/model/shield-model.ts'
import { createShieldScanner, type ShieldModelLevels, type ShieldScanner } from '../prompt-shield/scanner.ts'
import { type Canaries, canaryInstruction, liveCanaries } from './canary/marker.ts'
import { createTenantRules, type TenantRules } from './rules/tenant-rules.ts'
import { createRulesInForce, type RulesInForce } from './rules-in-force.ts'

/** The guards for all text that enters or leaves the gateway. */
export type Guards = {
  /** Returns the rules of the policy and the rules of the tenant, combined. */
  rulesFor(tenantId: string, policy: AppliedPolicy): RulesInForce | Promise<RulesInForce>
  /** The tenants' own rules. Call `forget` after a tenant's rules have changed. */
  tenantRules: Pick<TenantRules, 'forget'>
  shieldPolicies: FreshCache<readonly ShieldPolicy[]>
  scanner: ShieldScanner
  /**
   * Hashes of tool results that the shield has already reported. Each request of a conversation repeats earlier
   * results, and these hashes prevent duplicate reports.
   */
  reportedResults: LRUCache<string, true>
  pseudonymKey: KeyObject
  /** Returns the current canaries of an API key. */
  canariesOf(apiKeyId: string): Canaries
}

export type GuardsDeps = {
  db: Db
  clock: Clock
  log: Log
  masterKey: MasterKey
  shieldPolicies: FreshCache<readonly ShieldPolicy[]>
  providers: ProviderRegistry
  shieldModel?: (ShieldModel & ShieldModelLevels) | undefined
}

const REPORTED_RESULTS = 10_000

export function createGuards({
  db,
  clock,
  log,
  masterKey,
  shieldPolicies,
  providers,
  shieldModel,
}: GuardsDeps): Guards {
  const tenantRules = createTenantRules({ db, clock })
  const rulesInForce = createRulesInForce()
  const canaryKey = masterKey.keyFor('canaries')
  return {
    rulesFor(tenantId, policy) {
      const own = tenantRules.of(tenantId)
      return own instanceof Promise ? own.then((rules) => rulesInForce(policy, rules)) : rulesInForce(policy, own)
    },
    tenantRules,
    shieldPolicies,
    scanner: createShieldScanner({ clock, log, judge: createJudge({ providers, clock, log }), model: shieldModel }),
    reportedResults: new LRUCache({ max: REPORTED_RESULTS }),
    pseudonymKey: masterKey.keyFor('pseudonyms'),
    canariesOf(apiKeyId) {
      const live = liveCanaries(canaryKey, apiKeyId, new Date(clock.now()))
      return { live, instruction: canaryInstruction(live[0]) }
    },
  }
}
