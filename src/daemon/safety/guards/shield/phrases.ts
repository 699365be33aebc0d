import type { ShieldCategory } from '../../../../shared/wire/shield.ts'
import type { Concept } from './lexicon.ts'
import { CONCEPTS, type Words } from './words.ts'

/** A phrase that may be worded in any language: one concept per step, and each step is near the previous step. */
export type Phrase = {
  id: string
  category: ShieldCategory
  /** The confidence, 0 to 1, that the phrase alone indicates an attack. */
  confidence: number
  steps: readonly (readonly Concept[])[]
  /**
   * The maximum distance between consecutive steps, in words. If the steps may occur in any order, this is the maximum
   * distance between the first and the last step.
   */
  within: number
  anyOrder?: true
}

/** The indices of the first and last word of a phrase. */
export type PhraseHit = { phrase: Phrase; first: number; last: number }

const phrase = (
  category: ShieldCategory,
  id: string,
  confidence: number,
  within: number,
  steps: Phrase['steps'],
  order?: 'anyOrder',
): Phrase => ({ id, category, confidence, within, steps, ...(order ? { anyOrder: true } : {}) })

export const PHRASES: readonly Phrase[] = [
  phrase(
    'prompt_injection',
    'override-earlier-instructions',
    0.95,
    9,
    [['OVERRIDE'], ['PRIOR'], ['INSTR', 'RULES']],
    'anyOrder',
  ),
  phrase(
    'prompt_injection',
    'override-all-instructions',
    0.85,
    6,
    [['OVERRIDE'], ['ALL'], ['INSTR', 'RULES', 'LIMITS']],
    'anyOrder',
  ),
  phrase(
    'prompt_injection',
    'override-your-instructions',
    0.85,
    6,
    [['OVERRIDE'], ['YOU'], ['INSTR', 'RULES', 'LIMITS']],
    'anyOrder',
  ),
  phrase(
    'prompt_injection',
    'override-earlier-context',
    0.75,
    8,
    [['OVERRIDE'], ['PRIOR', 'ALL'], ['CONTEXT', 'TASK']],
    'anyOrder',
  ),
  phrase('prompt_injection', 'override-everything-before', 0.8, 4, [['OVERRIDE'], ['ALL', 'ANYTHING'], ['PRIOR']]),
  phrase('prompt_injection', 'override-the-above', 0.6, 3, [['OVERRIDE'], ['PRIOR']]),
  phrase('prompt_injection', 'override-then-new', 0.7, 12, [
    ['OVERRIDE'],
    ['NEW'],
    ['INSTR', 'TASK', 'SHOW', 'RESPOND'],
  ]),
  phrase('prompt_injection', 'override-and-say', 0.5, 10, [
    ['OVERRIDE'],
    ['INSTR', 'RULES', 'CONTEXT', 'TASK', 'PRIOR'],
    ['SHOW', 'RESPOND', 'REVEAL'],
  ]),
  phrase('prompt_injection', 'do-not-follow-rules', 0.6, 5, [
    ['NEG'],
    ['COMPLY', 'FREE'],
    ['INSTR', 'RULES', 'LIMITS', 'WARN'],
  ]),
  phrase('prompt_injection', 'new-instructions-for-you', 0.55, 6, [
    ['NEW'],
    ['INSTR', 'TASK'],
    ['YOU', 'OVERRIDE', 'SHOW'],
  ]),
  phrase('prompt_injection', 'answer-only-with', 0.2, 6, [
    ['RESPOND', 'SHOW'],
    ['COMPLY', 'NEG'],
    ['RESPOND', 'SHOW'],
  ]),
  phrase('prompt_leaking', 'reveal-your-prompt', 0.9, 7, [
    ['REVEAL', 'SHOW'],
    ['YOU', 'SYSTEM', 'PRIOR'],
    ['INSTR', 'RULES'],
  ]),
  phrase(
    'prompt_leaking',
    'reveal-system-prompt',
    0.85,
    8,
    [['REVEAL', 'SHOW'], ['SYSTEM'], ['INSTR', 'CONTEXT']],
    'anyOrder',
  ),
  phrase(
    'prompt_leaking',
    'what-are-your-instructions',
    0.7,
    5,
    [['YOU'], ['INSTR', 'RULES'], ['SHOW', 'REVEAL', 'PRIOR', 'ALL']],
    'anyOrder',
  ),
  phrase('prompt_leaking', 'repeat-the-above', 0.6, 6, [['SHOW', 'REVEAL'], ['ALL', 'ANYTHING', 'CONTEXT'], ['PRIOR']]),
  phrase('data_extraction', 'reveal-the-secret', 0.75, 6, [['REVEAL'], ['SECRET']], 'anyOrder'),
  phrase(
    'data_extraction',
    'tell-me-the-secret',
    0.7,
    7,
    [['SHOW', 'REVEAL', 'ME'], ['YOU', 'ME', 'REVEAL'], ['SECRET']],
    'anyOrder',
  ),
  phrase('data_extraction', 'your-secret', 0.55, 3, [['YOU'], ['SECRET']]),
  phrase('data_extraction', 'encode-the-secret', 0.7, 8, [['SECRET'], ['ENCODE']], 'anyOrder'),
  phrase('data_extraction', 'authority-wants-secret', 0.75, 12, [['AUTHORITY', 'SYSTEM'], ['SECRET']], 'anyOrder'),
  phrase('data_extraction', 'send-personal-data', 0.45, 14, [['DEVICE', 'SHOW'], ['PERSONALDATA'], ['SEND']]),
  phrase('jailbreak', 'unbound-assistant', 0.85, 8, [['UNBOUND'], ['AI', 'CHARACTER', 'MODE', 'RESPOND']], 'anyOrder'),
  phrase('jailbreak', 'no-limits', 0.7, 5, [
    ['NEG', 'FREE', 'OVERRIDE'],
    ['LIMITS', 'WARN'],
    ['LIMITS', 'WARN', 'RULES'],
  ]),
  phrase('jailbreak', 'never-refuse', 0.7, 4, [['NEG', 'COMPLY'], ['REFUSE']]),
  phrase('jailbreak', 'not-bound-by-rules', 0.8, 6, [
    ['NEG', 'FREE'],
    ['FREE', 'COMPLY'],
    ['RULES', 'LIMITS', 'WARN', 'INSTR'],
  ]),
  phrase('jailbreak', 'do-anything', 0.7, 4, [
    ['NEG', 'COMPLY', 'RESPOND'],
    ['ANYTHING'],
    ['NEG', 'WARN', 'RULES', 'LIMITS', 'ME'],
  ]),
  phrase('jailbreak', 'no-warnings', 0.5, 5, [['NEG'], ['WARN'], ['WARN', 'RESPOND', 'LIMITS']]),
  phrase('jailbreak', 'fiction-about-harm', 0.3, 12, [['HYPOTH', 'PERSONA', 'CHARACTER'], ['HARM'], ['HARM']]),
  phrase('jailbreak', 'stay-in-character', 0.6, 10, [['PRESSURE'], ['CHARACTER', 'RESPOND', 'MODE', 'REFUSE']]),
  phrase('role_hijack', 'from-now-on-you-are', 0.65, 8, [['FROMNOW'], ['YOU', 'RESPOND', 'PERSONA', 'AI', 'COMPLY']]),
  phrase('role_hijack', 'pretend-to-be-model', 0.65, 6, [
    ['PERSONA'],
    ['AI'],
    ['NEG', 'UNBOUND', 'FREE', 'MODE', 'NEW', 'HARM'],
  ]),
  phrase('role_hijack', 'pretend-rules-away', 0.7, 8, [
    ['PERSONA'],
    ['NEG', 'OVERRIDE'],
    ['RULES', 'LIMITS', 'INSTR', 'WARN'],
  ]),
  phrase('role_hijack', 'system-mode', 0.6, 4, [['SYSTEM', 'AUTHORITY', 'OVERRIDE'], ['MODE']], 'anyOrder'),
  phrase('role_hijack', 'i-am-your-developer', 0.6, 4, [['ME'], ['YOU'], ['SYSTEM', 'AUTHORITY']]),
  phrase('indirect_injection', 'insert-into-answer', 0.55, 7, [['INSERT'], ['YOU'], ['RESPOND', 'CODE']]),
  phrase('indirect_injection', 'urgent-override', 0.9, 8, [['URGENT'], ['OVERRIDE'], ['INSTR', 'PRIOR', 'TASK']]),
  phrase('indirect_injection', 'insert-code', 0.45, 8, [['INSERT'], ['CODE'], ['YOU', 'RESPOND']]),
  phrase('indirect_injection', 'brand-in-answer', 0.5, 8, [['YOU'], ['RESPOND'], ['BRAND']]),
  phrase(
    'obfuscation',
    'answer-encoded',
    0.55,
    5,
    [['RESPOND', 'SHOW'], ['ENCODE'], ['YOU', 'ME', 'SECRET', 'ENCODE']],
    'anyOrder',
  ),
  phrase('obfuscation', 'decode-and-follow', 0.7, 8, [['ENCODE'], ['COMPLY', 'DEVICE', 'INSTR']]),
]

type StepOfPhrase = { phrase: number; step: number }

/**
 * Finds all phrases in a range of words. Takes one pass, linear in the number of words. Reports each phrase once, or
 * each of its occurrences if `every` is true.
 */
export type PhraseFinder = (read: Words, from: number, to: number, every?: boolean) => PhraseHit[]

export function phraseFinder(phrases: readonly Phrase[]): PhraseFinder {
  /**
   * The phrase steps that each concept can match. The last step comes first, so that one word matches only one step of
   * an ordered phrase.
   */
  const stepsOf: readonly (readonly StepOfPhrase[])[] = CONCEPTS.map((concept) =>
    phrases.flatMap(({ steps }, phrase) =>
      steps.flatMap((step, at) => (step.includes(concept) ? [{ phrase, step: at }] : [])).reverse(),
    ),
  )
  return ({ concepts }, from, to, every = false) => {
    const hits: PhraseHit[] = []
    /** For each phrase and step: the last word that matched the step, and the word at which the phrase then began. */
    const taken = new Map<number, { word: number; first: number }[]>()
    const found = new Set<number>()
    for (let word = from; word < to; word++) {
      for (const concept of concepts[word]!) {
        for (const { phrase: number, step } of stepsOf[concept]!) {
          if (found.has(number)) continue
          const phrase = phrases[number]!
          const takenSteps = taken.get(number) ?? phrase.steps.map(() => ({ word: -1, first: -1 }))
          taken.set(number, takenSteps)
          const first = takeStep(phrase, takenSteps, step, word)
          if (first === undefined) continue
          hits.push({ phrase, first, last: word })
          if (!every) found.add(number)
        }
      }
    }
    return hits
  }
}

/** Records that a word matches a step. Returns the first word of the phrase if the phrase is now complete. */
function takeStep(
  { within, anyOrder, steps }: Phrase,
  takenSteps: { word: number; first: number }[],
  step: number,
  word: number,
): number | undefined {
  const here = takenSteps[step]!
  if (anyOrder) {
    here.word = word
    return isComplete(takenSteps, word - within)
      ? Math.min(...takenSteps.map((stepTaken) => stepTaken.word))
      : undefined
  }
  const before = takenSteps[step - 1]
  if (before !== undefined && (before.word < 0 || before.word === word || word - before.word > within)) return undefined
  here.word = word
  here.first = before?.first ?? word
  return step === steps.length - 1 ? here.first : undefined
}

/** Whether a different word matched each step, and none of these words is before `earliest`. */
function isComplete(takenSteps: readonly { word: number }[], earliest: number): boolean {
  return takenSteps.every(
    ({ word }, at) =>
      word >= Math.max(0, earliest) && takenSteps.every((other, index) => index === at || other.word !== word),
  )
}

/** Finds the phrases of attacks in a text. */
export const findPhrases: PhraseFinder = phraseFinder(PHRASES)

/** Finds every occurrence of every phrase, in the order of their last words. */
export const allPhrases = (read: Words, from: number, to: number): PhraseHit[] => findPhrases(read, from, to, true)
