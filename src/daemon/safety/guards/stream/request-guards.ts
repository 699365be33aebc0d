// The guards of an answer that belong to one request: canaries, quotations of the system prompt, and addresses.
import type { GuardIncident } from '../../incidents/incident.ts'
import { createCanaryDetector } from '../canary/detector.ts'
import type { Guards } from '../guards.ts'
import { promptQuestion } from '../prompt-leak/asks-for-prompt.ts'
import { createLeakDetector } from '../prompt-leak/detector.ts'
import type { ArmedDetector, GuardHit } from '../redaction.ts'
import type { GuardedRequest } from '../request/request-screening.ts'
import type { LeakOptions } from '../shield/output.ts'
import { CONTROL_SEQUENCE, createUrlDetector } from '../urls/detector.ts'
import { knownTexts } from '../urls/known-texts.ts'

/** The name of the canary guard, and the incident category of a leaked canary. */
export const CANARY = 'canary'
export const CANARY_LEAK = 'canary_leak'

/** The guard that finds quotations of the system prompt, and the category of its incidents. */
export const LEAK_GUARD = 'prompt_leak'
export const LEAK_CATEGORY = 'prompt_leaking'
const URL_GUARD = 'urls'

/** A detector that is created for one request. `acts`: it may change or block the answer. */
export type OwnGuard = { acts: boolean; armed: ArmedDetector; incidentsOf(hits: readonly GuardHit[]): GuardIncident[] }

type Comparable = Pick<GuardedRequest, 'policy' | 'instructions' | 'redacted'>

/**
 * Arms the search for quotations of the system prompt. Undefined if the policy only flags them: the prompt shield then
 * finds them.
 */
export function armLeaks(request: Comparable, guards: Pick<Guards, 'preparedPrompt'>): OwnGuard | undefined {
  const { policy, instructions, redacted } = request
  const { mode, promptLeak } = policy.document
  if (promptLeak.action === 'flag' || instructions === '') return undefined
  const acts = mode === 'enforce'
  const action = promptLeak.action === 'redact' ? 'mask' : 'block'
  const detector = createLeakDetector(guards.preparedPrompt(instructions), promptQuestion(redacted))
  return {
    acts,
    armed: { guard: LEAK_GUARD, detector, actionOf: () => (acts ? action : 'log') },
    incidentsOf: (hits) =>
      ruleIncidents(hits, policy, { guard: LEAK_GUARD, category: LEAK_CATEGORY, severity: 'high', action }),
  }
}

/** Returns what the prompt shield needs to find quotations of the system prompt. */
export function leaksFor(request: Comparable, guards: Pick<Guards, 'preparedPrompt'>): LeakOptions {
  const { policy, instructions, redacted } = request
  if (instructions === '') return {}
  let detector: ReturnType<typeof createLeakDetector> | undefined
  return {
    quotesSecret(text) {
      detector ??= createLeakDetector(guards.preparedPrompt(instructions), promptQuestion(redacted))
      return detector.find(text).length > 0
    },
    leaksMayBlock: policy.document.promptLeak.action === 'block',
  }
}

/** Arms the URL guard. Undefined if the policy allows all addresses. */
export function armUrls({ policy, redacted }: Comparable): OwnGuard | undefined {
  const { mode, urls } = policy.document
  if (urls.unknownHosts === 'allow') return undefined
  const acts = mode === 'enforce' && urls.unknownHosts !== 'log'
  const action = urls.unknownHosts === 'neutralise' ? 'mask' : urls.unknownHosts
  // Control sequences are removed even if addresses block the answer, because they carry no data.
  const actionOf = (type: string) => (!acts ? 'log' : type === CONTROL_SEQUENCE ? 'mask' : action)
  const detector = createUrlDetector(urls, knownTexts(redacted))
  return {
    acts,
    armed: { guard: URL_GUARD, detector, actionOf, allowsRestored: true },
    incidentsOf: (hits) =>
      ruleIncidents(hits, policy, { guard: URL_GUARD, category: URL_GUARD, severity: 'medium', action }),
  }
}

/** Returns one incident for all hits of a guard that the policy itself defines. */
function ruleIncidents(
  hits: readonly GuardHit[],
  { canonical, name, document: { mode } }: GuardedRequest['policy'],
  { guard, ...facts }: { guard: string; category: string; severity: 'medium' | 'high'; action: GuardHit['action'] },
): GuardIncident[] {
  const types: Record<string, number> = {}
  for (const { type, count } of hits.filter((hit) => hit.guard === guard)) types[type] = (types[type] ?? 0) + count
  if (Object.keys(types).length === 0) return []
  const rule = { ruleId: `policy:${canonical}`, ruleName: name, types, enforced: mode === 'enforce' }
  return [{ kind: 'dlp', direction: 'output', ...rule, ...facts }]
}

/** Arms the search for leaked canaries. Undefined if the policy disables canaries. */
export function armCanaries({ policy, canaries }: Pick<GuardedRequest, 'policy' | 'canaries'>): OwnGuard | undefined {
  if (!canaries) return undefined
  const { canary, mode } = policy.document
  const action = canary.action === 'redact' ? 'remove' : canary.action
  const acts = mode === 'enforce' && action !== 'log'
  const detector = createCanaryDetector(canaries.live)
  return {
    acts,
    armed: { guard: CANARY, detector, actionOf: () => (acts ? action : 'log') } satisfies ArmedDetector,
    /** Returns one incident for each leaked canary. */
    incidentsOf(hits: readonly GuardHit[]): GuardIncident[] {
      const leaked = new Set(hits.flatMap(({ guard, subject }) => (guard === CANARY && subject ? [subject] : [])))
      const facts = { kind: 'canary', direction: 'output', severity: 'critical', category: CANARY_LEAK } as const
      return [...leaked].map((canaryId) => ({ ...facts, canaryId, action, enforced: mode === 'enforce' }))
    },
  }
}
