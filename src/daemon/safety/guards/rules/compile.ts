import { DLP_DETECTOR_NAMES } from '../../../../shared/dlp-detectors.ts'
import { isPiiEntity } from '../../../../shared/pii-entities.ts'
import type { GuardRule, GuardRuleDocument } from '../../../../shared/wire/guard-rules.ts'
import type { Detector } from '../detection.ts'
import { DLP_DETECTORS } from '../dlp/detector.ts'
import { createRegexSearch } from '../dlp/regex-search.ts'
import { createWordSearch } from '../dlp/word-search.ts'
import { createPiiDetector } from '../pii/detector.ts'
import type { PlannedRule } from '../plan.ts'
import { VALIDATORS } from './validators.ts'

/** Compiles the enabled rules. @throws PatternRefused for an invalid pattern; stored rules never contain one */
export function compileRules(rules: readonly GuardRule[]): PlannedRule[] {
  return rules.filter(({ enabled }) => enabled).map(toPlannedRule)
}

function toPlannedRule(rule: GuardRule): PlannedRule {
  const { id, name, kind, detector, severity, action, direction, simulate } = rule
  return {
    kind,
    ruleId: id,
    ruleName: name,
    category: detector.replace('builtin:', ''),
    severity,
    detector: createRuleDetector(rule, id),
    action,
    direction,
    enforced: !simulate,
  }
}

/**
 * Creates the detector of a rule. `type` is the type of findings by the rule's own pattern and words. Built-in
 * detectors have their own types.
 * @throws PatternRefused
 */
export function createRuleDetector(rule: GuardRuleDocument, type: string): Detector {
  const { detector, pattern, words, caseSensitive, maxChars, validator } = rule
  const isValid = validator === null ? undefined : VALIDATORS[validator]
  if (pattern !== null) {
    return createRegexSearch(pattern, { type, caseSensitive, maxChars, ...(isValid && { isValid }) })
  }
  if (words.length > 0) {
    return validated(createWordSearch(words, { type, caseSensitive, wholeWords: detector === 'keywords' }), isValid)
  }
  return validated(createBuiltIn(detector.replace('builtin:', '')), isValid)
}

function createBuiltIn(name: string): Detector {
  const dlp = DLP_DETECTOR_NAMES.find((known) => known === name)
  if (dlp) return DLP_DETECTORS[dlp]()
  return createPiiDetector(isPiiEntity(name) ? { entities: [name] } : {})
}

function validated(detector: Detector, isValid: ((value: string) => boolean) | undefined): Detector {
  if (!isValid) return detector
  return {
    ...detector,
    find: (text) => detector.find(text).filter(({ start, end }) => isValid(text.slice(start, end))),
  }
}
