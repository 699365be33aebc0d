import { GatewayError, type GatewayErrorOptions } from '../../../shared/errors.ts'
import { newTraceId } from '../../../shared/ids.ts'
import type { Clock } from '../../../shared/time.ts'
import type { Caller } from '../../platform/http/caller.ts'
import type { Ledger } from '../../records/ledger/ledger.ts'
import type { LedgerRecords } from '../../records/ledger/records.ts'
import { addIncidents, type GuardIncident } from '../incidents/incident.ts'
import type { AppliedPolicy, Destination, MayAsk } from './policies.ts'
import { type Violation, violationsOf } from './restrictions.ts'

/** A request and its caller. `endpoint` is the path of the request's route. */
type CheckedRequest = { caller: Caller; requestId: string; endpoint: string }

/**
 * Checks every model of the fallback chain against the policy before any model is called. Violations are stored as
 * incidents. If the request is rejected, they are stored together with the receipt of the rejection. In monitor mode,
 * they are stored immediately, and the request continues.
 * @throws INSUFFICIENT_PERMISSIONS with the model and the policy
 */
export async function enforcePolicy(
  { canonical, document }: AppliedPolicy,
  chain: readonly Destination[],
  asked: CheckedRequest,
  { ledger, clock }: { ledger: Ledger; clock: Clock },
  evidence: { incidents: GuardIncident[]; withRefusal: LedgerRecords },
): Promise<void> {
  const violations = violationsOf(document, chain)
  const [first] = violations
  if (first === undefined) return
  const enforced = document.mode === 'enforce'
  const traceId = newTraceId()
  const origin = { ...asked, traceId, policy: canonical }
  const records = violations.reduce<LedgerRecords>((all, violation) => {
    const incident = toIncident(violation, enforced)
    evidence.incidents.push(incident)
    return addIncidents(all, [incident], { ...origin, model: violation.modelId }, clock.now())
  }, {})
  if (!enforced) return ledger.commit(records)
  evidence.withRefusal = records
  throw notAllowed(canonical, first, { extra: { trace_id: traceId } })
}

/** Like `enforcePolicy`, but stores no incidents. @throws INSUFFICIENT_PERMISSIONS with the model and the policy */
export function requireAllowed({ canonical, document }: AppliedPolicy, chain: readonly Destination[]): void {
  const [first] = violationsOf(document, chain)
  if (first && document.mode === 'enforce') throw notAllowed(canonical, first)
}

/**
 * Returns a function that tests whether the gateway itself may call a model, for example as a judge or a reranker. A
 * policy in monitor mode allows all models.
 */
export const mayAskUnder =
  ({ document }: Pick<AppliedPolicy, 'document'>): MayAsk =>
  (destination) =>
    document.mode !== 'enforce' || violationsOf(document, [destination]).length === 0

const notAllowed = (policy: string, { modelId, reason }: Violation, options: GatewayErrorOptions = {}): GatewayError =>
  new GatewayError(
    'INSUFFICIENT_PERMISSIONS',
    `The policy "${policy}" does not allow the model "${modelId}": ${reason}.`,
    options,
  )

const toIncident = ({ rule }: Violation, enforced: boolean): GuardIncident => ({
  kind: 'policy',
  ruleId: rule,
  ruleName: rule,
  types: { [rule]: 1 },
  category: 'model_not_allowed',
  severity: 'medium',
  direction: 'input',
  action: 'block',
  enforced,
})
