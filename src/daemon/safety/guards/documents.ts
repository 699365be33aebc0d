import type { PolicyAction } from '../../../shared/wire/policies.ts'
import type { ArmedRules } from './plan.ts'
import type { ArmedDetector, Found } from './redaction.ts'

// Rules for `input`, applied to documents that are stored. A pseudonym can be reversed only in the response to the
// request that created it. So values to tokenize are stored unchanged, and tokenized on their way into a prompt.

/** The rules for a document's text. */
export const armForText = (rules: ArmedRules): ArmedDetector[] =>
  armWith(rules, (action) => (action === 'tokenize' ? 'log' : action))

/**
 * The rules for a document's name. A document replaces another of the same name, and two names may have the same mask.
 * So names get pseudonyms, which are the same only for the same value.
 */
export const armForName = (rules: ArmedRules): ArmedDetector[] =>
  armWith(rules, (action) => IN_NAMES[action]).map(withFileNames)

const IN_NAMES = {
  log: 'log',
  mask: 'tokenize',
  remove: 'tokenize',
  tokenize: 'log',
  block: 'block',
} as const satisfies Record<PolicyAction, PolicyAction>

const armWith = ({ acting, watching }: ArmedRules, toAction: (action: PolicyAction) => PolicyAction): ArmedDetector[] =>
  [...acting, ...watching].map((armed) => ({ ...armed, actionOf: (type) => toAction(armed.actionOf(type)) }))

/** Also finds values in file names: `ada@example.com.txt` contains an address that ends before `.txt`. */
export const withFileNames = (armed: ArmedDetector): ArmedDetector => {
  const { slowly: _, ...detector } = armed.detector
  function find(name: string): Found[] {
    const whole = detector.find(name)
    const dot = name.lastIndexOf('.')
    if (dot <= 0) return whole
    const apart = detector.find(`${name.slice(0, dot)} ${name.slice(dot + 1)}`)
    return [...whole, ...apart.filter(({ start, end }) => !whole.some((one) => one.start < end && start < one.end))]
  }
  return { ...armed, detector: { ...detector, find } }
}
