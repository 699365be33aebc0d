import type { Severity } from '../../../shared/wire/incidents.ts'
import type { PolicyAction } from '../../../shared/wire/policies.ts'
import type { RuleIncident } from '../incidents/incident.ts'
import type { Detector } from './detection.ts'
import type { ArmedDetector, GuardHit } from './redaction.ts'
import { throughView } from './view/viewed-detector.ts'

/** A rule of a policy or of a tenant that applies to a request: its detector and its action. */
export type PlannedRule = {
  kind: 'dlp' | 'pii'
  ruleId: string
  ruleName: string
  category: string
  severity: Severity
  detector: Detector
  action: PolicyAction
  direction: 'input' | 'output' | 'both'
  /** False if the policy or the rule is in monitor mode. */
  enforced: boolean
  /** The number of findings that blocks. Undefined: any number may pass. */
  blockAt?: number | undefined
}

/** The compiled rules for one direction. */
export type ArmedRules = {
  /** Rules that may change or reject a text. */
  acting: readonly ArmedDetector[]
  /** Rules that only count findings. The request does not wait for their results. */
  watching: readonly ArmedDetector[]
  /** Returns the incidents for the hits of both acting and watching rules. */
  incidentsOf(hits: readonly GuardHit[], direction: RuleIncident['direction']): RuleIncident[]
}

/**
 * Compiles the rules for one direction.
 * @param direction for retrieved text, use `input`, because a model reads this text
 */
export function armRules(rules: readonly PlannedRule[], direction: 'input' | 'output'): ArmedRules {
  const armed = rules
    .map((rule, at) => ({ rule, guard: String(at) }))
    .filter(({ rule }) => rule.direction === direction || rule.direction === 'both')
    .map(({ rule, guard }) => ({ rule, detector: toArmed(rule, guard) }))
  const acts = ({ rule }: { rule: PlannedRule }) =>
    rule.enforced && (rule.action !== 'log' || rule.blockAt !== undefined)
  return {
    acting: armed.filter(acts).map(({ detector }) => detector),
    watching: armed.filter((one) => !acts(one)).map(({ detector }) => detector),
    incidentsOf: (hits, where) => toIncidents(rules, hits, where),
  }
}

const toArmed = ({ kind, detector, action, enforced, blockAt }: PlannedRule, guard: string): ArmedDetector => ({
  guard,
  detector: throughView(detector, { readsTokens: kind === 'dlp' }),
  ...(enforced && blockAt !== undefined && { blockAt }),
  actionOf: () => (enforced ? action : 'log'),
})

/** Returns one incident for each rule with hits. */
function toIncidents(
  rules: readonly PlannedRule[],
  hits: readonly GuardHit[],
  direction: RuleIncident['direction'],
): RuleIncident[] {
  if (hits.length === 0) return []
  return rules.flatMap((rule, at) => {
    const own = hits.filter(({ guard }) => guard === String(at))
    if (own.length === 0) return []
    const types: Record<string, number> = {}
    let total = 0
    for (const { type, count } of own) {
      types[type] = (types[type] ?? 0) + count
      total += count
    }
    const { kind, ruleId, ruleName, category, severity, enforced, blockAt = Number.POSITIVE_INFINITY } = rule
    const action = total >= blockAt ? 'block' : rule.action
    return [{ kind, ruleId, ruleName, category, severity, action, enforced, direction, types }]
  })
}
