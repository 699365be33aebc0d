import type { Severity } from '../../../shared/wire/incidents.ts'
import type { PolicyAction } from '../../../shared/wire/policies.ts'
import type { RuleIncident } from '../incidents/incident.ts'
import type { Detector } from './detection.ts'
import type { ArmedDetector, GuardHit } from './redaction.ts'

/** One rule of a policy or a tenant that holds for a request: what it looks for, and what it does about it. */
export type PlannedRule = {
  kind: 'dlp' | 'pii'
  ruleId: string
  ruleName: string
  category: string
  severity: Severity
  detector: Detector
  action: PolicyAction
  direction: 'input' | 'output' | 'both'
  /** False where the policy or the rule only watches. */
  enforced: boolean
}

/** The rules for what goes one way, ready to be used. */
export type ArmedRules = {
  /** Those that may change or refuse a text. */
  acting: readonly ArmedDetector[]
  /** Those that only count: nothing has to wait for them. */
  watching: readonly ArmedDetector[]
  /** What the hits of either leave behind. */
  incidentsOf(hits: readonly GuardHit[], direction: RuleIncident['direction']): RuleIncident[]
}

/** Arms the rules for one way. @param direction of what is retrieved: `input`, for a model is going to read it */
export function armRules(rules: readonly PlannedRule[], direction: 'input' | 'output'): ArmedRules {
  const armed = rules
    .map((rule, at) => ({ rule, guard: String(at) }))
    .filter(({ rule }) => rule.direction === direction || rule.direction === 'both')
    .map(({ rule, guard }) => ({ rule, detector: toArmed(rule, guard) }))
  const acts = ({ rule }: { rule: PlannedRule }) => rule.enforced && rule.action !== 'log'
  return {
    acting: armed.filter(acts).map(({ detector }) => detector),
    watching: armed.filter((one) => !acts(one)).map(({ detector }) => detector),
    incidentsOf: (hits, where) => toIncidents(rules, hits, where),
  }
}

const toArmed = ({ detector, action, enforced }: PlannedRule, guard: string): ArmedDetector => ({
  guard,
  detector,
  actionOf: () => (enforced ? action : 'log'),
})

/** One incident for each rule that was hit. */
function toIncidents(
  rules: readonly PlannedRule[],
  hits: readonly GuardHit[],
  direction: RuleIncident['direction'],
): RuleIncident[] {
  return rules.flatMap((rule, at) => {
    const own = hits.filter(({ guard }) => guard === String(at))
    if (own.length === 0) return []
    const types: Record<string, number> = {}
    for (const { type, count } of own) types[type] = (types[type] ?? 0) + count
    const { kind, ruleId, ruleName, category, severity, action, enforced } = rule
    return [{ kind, ruleId, ruleName, category, severity, action, enforced, direction, types }]
  })
}
