import type { z } from 'zod'
import type { GuardRuleDocument, SimulateGuardRulesResponse } from '../../../../shared/wire/guard-rules.ts'
import { createPacer, runInSlices } from '../../../platform/pacing.ts'
import { type ArmedDetector, finding } from '../redaction.ts'
import { throughView } from '../view/viewed-detector.ts'
import { createRuleDetector } from './compile.ts'

type Results = z.input<typeof SimulateGuardRulesResponse>['results']

/** Applies rules to sample texts. Disabled rules are also applied. All texts share the step budget of one request. */
export async function simulate(
  rules: readonly (GuardRuleDocument & { id: string | null })[],
  samples: readonly string[],
): Promise<Results> {
  const pacer = createPacer()
  const detectors = rules.map((rule) => {
    const detector = throughView(createRuleDetector(rule, rule.id ?? 'rule'), { readsTokens: rule.kind === 'dlp' })
    return { rule, armed: [{ guard: '', detector, actionOf: () => rule.action }] satisfies ArmedDetector[] }
  })
  const results: Results = []
  for (const [sample, text] of samples.entries()) {
    const findings: Results[number]['findings'] = []
    for (const { rule, armed } of detectors) {
      for (const { start, end, type, confidence, action } of await runInSlices(finding(text, armed, pacer), pacer)) {
        findings.push({ ruleId: rule.id, start, end, type, confidence, action })
      }
    }
    results.push({ sample, findings: findings.sort((one, other) => one.start - other.start) })
  }
  return results
}
