import { LRUCache } from 'lru-cache'
import { DEFAULT_DLP_DETECTORS, DLP_DETECTOR_NAMES } from '../../../shared/dlp-detectors.ts'
import type { GuardRule } from '../../../shared/wire/guard-rules.ts'
import type { PolicyDocument } from '../../../shared/wire/policies.ts'
import type { AppliedPolicy } from '../policies/policies.ts'
import { type CleanTexts, createCleanTexts } from './clean-texts.ts'
import type { Detector } from './detection.ts'
import { createDlpDetector, DLP_DETECTORS } from './dlp/detector.ts'
import { createPiiDetector } from './pii/detector.ts'
import { type ArmedRules, armRules, type PlannedRule } from './plan.ts'
import { compileRules } from './rules/compile.ts'
import type { OwnRules } from './rules/tenant-rules.ts'

/** The rules that apply to a request, by direction. */
export type RulesInForce = {
  input: ArmedRules
  output: ArmedRules
  sources: RuleSources
  /** The cache of texts in which these rules have no findings. */
  cleanTexts: CleanTexts
}

/** The sources of rules as plain data, from which another thread can recreate the rules. */
export type RuleSources = {
  policy: { canonical: string; name: string; document: Pick<PolicyDocument, 'mode' | 'dlp' | 'pii'> }
  own: readonly GuardRule[]
}

const POLICIES_CACHED = 1_000

/** Combines the rules of a policy and a tenant. Detectors are created only once for each distinct policy content. */
export function createRulesInForce(): (policy: AppliedPolicy, own: OwnRules) => RulesInForce {
  const ofPolicies = new LRUCache<string, readonly PlannedRule[]>({ max: POLICIES_CACHED })
  const ofTenants = new WeakMap<OwnRules, Map<string, RulesInForce>>()
  const cleanTextsOf = createCleanTexts()

  return (policy, own) => {
    // The key includes the policy's name, because incidents identify rules by this name.
    const key = `${policy.hash} ${policy.canonical}`
    const inForce = ofTenants.get(own) ?? new Map<string, RulesInForce>()
    ofTenants.set(own, inForce)
    const known = inForce.get(key)
    if (known) return known
    const ofPolicy = ofPolicies.get(key) ?? rulesOf(policy)
    ofPolicies.set(key, ofPolicy)
    const all = [...ofPolicy, ...own.planned]
    const sources = { policy: toSource(policy), own: own.documents }
    const [input, output] = [armRules(all, 'input'), armRules(all, 'output')]
    const rules = { input, output, sources, cleanTexts: cleanTextsOf() }
    inForce.set(key, rules)
    return rules
  }
}

/**
 * Compiles the sources for one direction. The order of the rules must be the same as in `createRulesInForce`, because
 * hits refer to rules by index.
 */
export const armSources = ({ policy, own }: RuleSources, direction: 'input' | 'output'): ArmedRules =>
  armRules([...rulesOf(policy), ...compileRules(own)], direction)

const toSource = ({ canonical, name, document: { mode, dlp, pii } }: AppliedPolicy): RuleSources['policy'] => ({
  canonical,
  name,
  document: { mode, dlp, pii },
})

function rulesOf({ canonical, name, document }: RuleSources['policy']): PlannedRule[] {
  const { pii, dlp, mode } = document
  const common = { ruleId: `policy:${canonical}`, ruleName: name, enforced: mode === 'enforce' }
  const rules: PlannedRule[] = []
  if (dlp.enabled) {
    const detector = createDlpDetector(dlpDetectors(dlp.rules))
    const { action, direction } = dlp
    rules.push({ ...common, kind: 'dlp', category: 'secrets', severity: 'high', detector, action, direction })
  }
  if (pii.enabled) {
    const detector = createPiiDetector(pii.entities === 'default' ? {} : { entities: pii.entities })
    const { action, direction, blockThreshold } = pii
    const blockAt = blockThreshold ?? undefined
    const pushed = { ...common, kind: 'pii', category: 'personal_data', severity: 'medium' } as const
    rules.push({ ...pushed, detector, action, direction, blockAt })
  }
  return rules
}

function dlpDetectors(rules: PolicyDocument['dlp']['rules']): Detector[] {
  const names = rules === 'default' ? DEFAULT_DLP_DETECTORS : rules === 'all' ? DLP_DETECTOR_NAMES : rules
  return names.map((name) => DLP_DETECTORS[name]())
}
