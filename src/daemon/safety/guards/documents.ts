import type { PolicyAction } from '../../../shared/wire/policies.ts'
import type { ArmedRules } from './plan.ts'
import type { ArmedDetector, Found } from './redaction.ts'

// What rules for `input` do about documents that are to be stored. A pseudonym finds its way back only in the answer of the
// request that it was made for, so what is to be tokenized is stored as it is: it is tokenized on its way into a prompt.

/** The rules for what a document says. */
export const armForText = (rules: ArmedRules): ArmedDetector[] =>
  armWith(rules, (action) => (action === 'tokenize' ? 'log' : action))

/**
 * The rules for what a document is called. Masks of two names may be the same, and a document replaces another of its
 * name: so pseudonyms stand in names, which are the same for the same value only.
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

/** As the detector, for texts that may be names of files: `ada@example.com.txt` holds an address, which ends before `.txt`. */
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
