import { GatewayError, type GatewayErrorOptions } from '../../../shared/errors.ts'
import { newTraceId } from '../../../shared/ids.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { type GuardIncident, incidentRecords } from '../incidents/incident.ts'
import type { AppliedPolicy, Destination, MayCall, PolicyUses } from './policies.ts'
import { type Violation, violationsBy, violationsOf } from './restrictions.ts'

/** A request and its caller. `endpoint` is the path of the request's route. */
type CheckedRequest = { caller: Caller; requestId: string; endpoint: string }

/** The violations of a request, and their records for the request's commit. */
type Enforced = {
  incidents: GuardIncident[]
  records: ReturnType<typeof incidentRecords>[]
  /** INSUFFICIENT_PERMISSIONS with the model and the policy. Undefined in monitor mode, and without violations. */
  refusal: GatewayError | undefined
}

/**
 * Checks every model of the fallback chain, and what the request uses, against the policy, before any model is called.
 * Stores nothing.
 */
export function enforcePolicy(
  policy: AppliedPolicy,
  chain: readonly Destination[],
  checked: CheckedRequest,
  nowMs: number,
  uses?: PolicyUses,
): Enforced {
  const { document } = policy
  const violations = uses
    ? [...violationsOf(document, chain), ...violationsBy(uses, document, chain)]
    : violationsOf(document, chain)
  return enforce(violations, policy, checked, nowMs)
}

/** Like `enforcePolicy`, but checks only what an admitted request uses. */
export const enforceUses = (
  uses: PolicyUses,
  policy: AppliedPolicy,
  chain: readonly Destination[],
  checked: CheckedRequest,
  nowMs: number,
): Enforced => enforce(violationsBy(uses, policy.document, chain), policy, checked, nowMs)

function enforce(
  violations: readonly Violation[],
  policy: AppliedPolicy,
  checked: CheckedRequest,
  nowMs: number,
): Enforced {
  const { canonical, document } = policy
  const [first] = violations
  if (first === undefined) return NO_VIOLATION
  const enforced = document.mode === 'enforce'
  const traceId = newTraceId()
  const origin = { ...checked, traceId, policy: canonical }
  const incidents = violations.map((violation) => toIncident(violation, enforced))
  return {
    incidents,
    records: violations.map(({ modelId }, at) =>
      incidentRecords([incidents[at] as GuardIncident], { ...origin, model: modelId }, nowMs),
    ),
    refusal: enforced ? notAllowed(policy, first, { extra: { trace_id: traceId } }) : undefined,
  }
}

const NO_VIOLATION: Enforced = { incidents: [], records: [], refusal: undefined }

/** Like `enforcePolicy`, without recording. @throws INSUFFICIENT_PERMISSIONS with the model and the policy */
export function requireAllowed(policy: AppliedPolicy, chain: readonly Destination[]): void {
  const { document } = policy
  const [first] = violationsOf(document, chain)
  if (first && document.mode === 'enforce') throw notAllowed(policy, first)
}

/**
 * Returns a function that tests whether the gateway itself may call a model, for example as a judge or a reranker. A
 * policy in monitor mode allows all models.
 */
export const mayCallUnder =
  ({ document }: Pick<AppliedPolicy, 'document'>): MayCall =>
  (destination) =>
    document.mode !== 'enforce' || violationsOf(document, [destination]).length === 0

const notAllowed = (
  policy: Pick<AppliedPolicy, 'canonical' | 'baseline'>,
  { modelId, reason }: Violation,
  options: GatewayErrorOptions = {},
): GatewayError =>
  new GatewayError(
    'INSUFFICIENT_PERMISSIONS',
    `The policy ${shownPolicy(policy)} does not allow the model "${modelId}": ${reason}.`,
    options,
  )

/** Names the policy, and the baseline that was joined with it. */
const shownPolicy = ({ canonical, baseline }: Pick<AppliedPolicy, 'canonical' | 'baseline'>): string =>
  baseline ? `"${canonical}" with the baseline "${baseline.id}"` : `"${canonical}"`

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
