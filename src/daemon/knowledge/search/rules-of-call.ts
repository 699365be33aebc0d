// Determines which policy and rules apply to calls that do not name a policy.
import { newTraceId } from '../../../shared/ids.ts'
import type { Clock } from '../../../shared/time.ts'
import type { FreshCache } from '../../platform/db/fresh-cache.ts'
import type { Caller } from '../../platform/http/caller.ts'
import type { Ledger } from '../../records/ledger/ledger.ts'
import type { Guards } from '../../safety/guards/guards.ts'
import type { RulesInForce } from '../../safety/guards/rules-in-force.ts'
import { incidentRecords, type RuleIncident } from '../../safety/incidents/incident.ts'
import { mayCallUnder } from '../../safety/policies/enforce.ts'
import type { TenantPolicies } from '../../safety/policies/policies.ts'
import type { SearchOptions } from './search.ts'

export type RulesOfCallDeps = {
  guards: Pick<Guards, 'rulesFor' | 'pseudonymKey'>
  policies: FreshCache<TenantPolicies>
  ledger: Ledger
  clock: Clock
}

/** The rules that apply to a call that does not name a policy. */
export type RulesOfCall = {
  rules: RulesInForce
  /**
   * Returns the options of a search for this query. With these options, models read only content that the input rules
   * allow.
   */
  searchOptions(query: string): Promise<SearchOptions>
  /** Incidents are recorded durably before the function returns. */
  record(incidents: readonly RuleIncident[]): Promise<void>
}

/** @param endpoint the route's path @throws POLICY_UNAVAILABLE */
export async function rulesOfCall(
  { caller, requestId, endpoint }: { caller: Caller; requestId: string; endpoint: string },
  { guards, policies, ledger, clock }: RulesOfCallDeps,
): Promise<RulesOfCall> {
  const policy = (await policies.of(caller.tenantId)).defaultFor(caller.settings)
  const rules = await guards.rulesFor(caller.tenantId, policy)
  const origin = { caller, requestId, endpoint, traceId: newTraceId(), policy: policy.canonical, model: null }
  return {
    rules,
    async searchOptions(query) {
      const { acting } = rules.input
      const mayCall = mayCallUnder(policy)
      const { text, isBlocked } = await rules.cleanTexts.screenInSlices(query, 'text', acting)
      return {
        mayCall: (destination) => !isBlocked && mayCall(destination),
        outsideQuery: text,
        keepsPassages: acting.length > 0,
      }
    },
    async record(incidents) {
      if (incidents.length > 0) await ledger.commit(incidentRecords(incidents, origin, clock.now()))
    },
  }
}
