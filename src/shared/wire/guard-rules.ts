import { z } from 'zod'
import { DLP_DETECTOR_NAMES } from '../dlp-detectors.ts'
import { isPiiEntity } from '../pii-entities.ts'
import { POLICY_NAME } from '../policy-id.ts'
import { GUARD_MATCH_CHARS, GUARD_PATTERN, GUARD_SAMPLES, GUARD_WORDS, NAME_CHARS } from '../spec-limits.ts'
import {
  anObject,
  closedObject,
  description,
  flag,
  label,
  oneOf,
  optional,
  readableName,
  readOnlyMembers,
  requestBody,
  storableText,
} from './common.ts'
import { SEVERITIES } from './incidents.ts'
import { POLICY_ACTIONS, POLICY_DIRECTIONS } from './policies.ts'

const GUARD_RULE_KINDS = ['dlp', 'pii'] as const
export const GUARD_VALIDATORS = ['luhn', 'iban', 'entropy'] as const

const BUILT_IN = 'builtin:'
const OWN_DETECTORS = ['regex', 'keywords', 'dictionary']

const isDetector = (name: string): boolean => {
  if (!name.startsWith(BUILT_IN)) return OWN_DETECTORS.includes(name)
  const builtIn = name.slice(BUILT_IN.length)
  return builtIn === 'pii' || isPiiEntity(builtIn) || DLP_DETECTOR_NAMES.some((known) => known === builtIn)
}

const ruleName = readableName('name', NAME_CHARS)
  .regex(POLICY_NAME, {
    error: "name must begin with a letter or digit and contain only letters, digits, spaces and ( ) & + ' , . : _ -",
  })
  .overwrite((name) => name.replace(/ +/g, ' '))

const fields = {
  kind: oneOf('kind', GUARD_RULE_KINDS),
  detector: storableText('detector')
    .refine(isDetector, {
      error: `detector must be regex, keywords, dictionary, builtin:pii, builtin:<entity>, or ${DLP_DETECTOR_NAMES.map((name) => `${BUILT_IN}${name}`).join(', ')}`,
    })
    .meta({ example: 'builtin:secrets' }),
  description,
  pattern: storableText('pattern')
    .min(1, { error: 'pattern must not be empty' })
    .max(GUARD_PATTERN.chars, { error: `pattern may have at most ${GUARD_PATTERN.chars} characters` })
    .nullable()
    .meta({ description: 'For the detector `regex`, in RE2 syntax' }),
  words: z
    .array(label('each of words', GUARD_WORDS.chars), { error: 'words must be an array of strings' })
    .max(GUARD_WORDS.max, { error: `words may have at most ${GUARD_WORDS.max} entries` })
    .refine((words) => words.reduce((sum, { length }) => sum + length, 0) <= GUARD_WORDS.totalChars, {
      error: `words may have at most ${GUARD_WORDS.totalChars} characters in total`,
    })
    .meta({ description: 'For `keywords`, which match whole words, and `dictionary`, which match anywhere' }),
  caseSensitive: flag('caseSensitive'),
  maxChars: z
    .int({ error: 'maxChars must be a whole number' })
    .min(GUARD_MATCH_CHARS.min, { error: `maxChars must be at least ${GUARD_MATCH_CHARS.min}` })
    .max(GUARD_MATCH_CHARS.max, { error: `maxChars may be at most ${GUARD_MATCH_CHARS.max}` })
    .meta({ description: 'Maximum length of a match of `pattern`; a stream is held back by up to this much' }),
  validator: oneOf('validator', GUARD_VALIDATORS)
    .nullable()
    .meta({ description: 'An additional condition for a match: a valid check digit, or a random-looking value' }),
  severity: oneOf('severity', SEVERITIES),
  direction: oneOf('direction', POLICY_DIRECTIONS),
  action: oneOf('action', POLICY_ACTIONS),
  enabled: flag('enabled'),
  simulate: flag('simulate').meta({ description: 'Findings are only recorded' }),
}

type RuleBody = { kind: string; detector: string; pattern: string | null; words: readonly string[] }

const fitsTogether = (rule: RuleBody, context: z.RefinementCtx): void => {
  const conflict = conflictOf(rule)
  if (conflict) context.addIssue({ code: 'custom', path: [conflict.field], message: conflict.message })
}

/** Returns the first conflict between members, or undefined if the members are consistent. */
function conflictOf({ kind, detector, pattern, words }: RuleBody): { field: string; message: string } | undefined {
  if ((detector === 'regex') !== (pattern !== null)) {
    return { field: 'pattern', message: 'pattern is required with the detector regex, and rejected with any other' }
  }
  if (['keywords', 'dictionary'].includes(detector) !== words.length > 0) {
    return {
      field: 'words',
      message: 'words are required with the detectors keywords and dictionary, and rejected with any other',
    }
  }
  const isDlp = DLP_DETECTOR_NAMES.some((name) => detector === `${BUILT_IN}${name}`)
  if (detector.startsWith(BUILT_IN) && isDlp !== (kind === 'dlp')) {
    return { field: 'kind', message: `kind must be ${isDlp ? 'dlp' : 'pii'} with the detector ${detector}` }
  }
  return undefined
}

/** The members of a rule, with their defaults. */
const ruleDocument = {
  kind: fields.kind,
  detector: fields.detector,
  description: fields.description.default(''),
  pattern: fields.pattern.default(null),
  words: fields.words.default([]),
  caseSensitive: fields.caseSensitive.default(false),
  maxChars: fields.maxChars.default(GUARD_MATCH_CHARS.default),
  validator: fields.validator.default(null),
  severity: fields.severity.default('medium'),
  direction: fields.direction.default('both'),
  action: fields.action.default('log'),
  enabled: fields.enabled.default(true),
  simulate: fields.simulate.default(false),
}

/** A rule without its name. The members must be consistent. */
export const GuardRuleDocument = z.object(ruleDocument, anObject).superRefine(fitsTogether)
export type GuardRuleDocument = z.output<typeof GuardRuleDocument>

/** The body of POST /api/admin/guard-rules. */
export const CreateGuardRuleRequest = closedObject({ name: ruleName, ...ruleDocument }, anObject.error)
  .superRefine(fitsTogether)
  .meta({ id: 'CreateGuardRuleRequest' })

/** The members of a rule that requests cannot change. */
export const GUARD_RULE_READ_ONLY = ['id', 'name', 'createdAt', 'updatedAt'] as const

/**
 * The body of PUT …/{ruleId}. Only the members in the body are changed. The rule's name cannot be changed, because
 * policies refer to it.
 */
export const UpdateGuardRuleRequest = requestBody('UpdateGuardRuleRequest', {
  kind: optional(fields.kind),
  detector: optional(fields.detector),
  description: optional(fields.description),
  pattern: fields.pattern.optional(),
  words: optional(fields.words),
  caseSensitive: optional(fields.caseSensitive),
  maxChars: optional(fields.maxChars),
  validator: fields.validator.optional(),
  severity: optional(fields.severity),
  direction: optional(fields.direction),
  action: optional(fields.action),
  enabled: optional(fields.enabled),
  simulate: optional(fields.simulate),
  ...readOnlyMembers(GUARD_RULE_READ_ONLY),
})
export type UpdateGuardRuleRequest = z.output<typeof UpdateGuardRuleRequest>
/** The members that an update changes. */
export type GuardRuleChanges = Omit<UpdateGuardRuleRequest, (typeof GUARD_RULE_READ_ONLY)[number]>

export const GuardRule = z
  .object({
    id: z.string().meta({ description: 'The name in lower case, with hyphens for spaces' }),
    name: z.string(),
    ...ruleDocument,
    createdAt: z.string(),
    updatedAt: z.string(),
  })
  .meta({ id: 'GuardRule' })
export type GuardRule = z.output<typeof GuardRule>

export const ListGuardRulesResponse = z.object({ success: z.literal(true), rules: z.array(GuardRule) })
export const ShowGuardRuleResponse = z.object({ success: z.literal(true), rule: GuardRule })
export const GuardRuleResponse = z.object({ success: z.literal(true), message: z.string(), rule: GuardRule })

/**
 * The body of POST /api/admin/guard-rules/simulate. If `rule` is omitted, every rule of the tenant is applied, even if
 * it is disabled.
 */
export const SimulateGuardRulesRequest = requestBody('SimulateGuardRulesRequest', {
  rule: optional(closedObject(ruleDocument, 'rule must be an object').superRefine(fitsTogether)),
  samples: z
    .array(
      storableText('each of samples').max(GUARD_SAMPLES.chars, {
        error: `each of samples may have at most ${GUARD_SAMPLES.chars} characters`,
      }),
      { error: 'samples must be an array of strings' },
    )
    .min(1, { error: 'samples must contain at least one text' })
    .max(GUARD_SAMPLES.max, { error: `samples may have at most ${GUARD_SAMPLES.max} entries` }),
})

export const SimulateGuardRulesResponse = z.object({
  success: z.literal(true),
  results: z.array(
    z.object({
      sample: z.int().meta({ description: 'Position in `samples`, from 0' }),
      findings: z.array(
        z.object({
          ruleId: z.string().nullable().meta({ description: 'Null for the rule of the request' }),
          type: z.string(),
          start: z.int().meta({ description: 'UTF-16 code units, as JavaScript counts' }),
          end: z.int(),
          confidence: z.number(),
          action: z.enum(POLICY_ACTIONS),
        }),
      ),
    }),
  ),
})
