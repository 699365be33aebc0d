// Finds definitions of tools that instruct the model to act behind its user's back ("tool poisoning").
import type { ShieldCategory } from '../../../../shared/wire/shield.ts'
import { findPhrases } from '../shield/phrases.ts'
import { readText } from '../shield/reading.ts'
import { withoutAccents } from '../shield/spelling.ts'
import { SIGNS, type Sign } from './poison-signs.ts'

/** `confidence` is 0 to 1. */
export type Poison = { category: ShieldCategory; confidence: number }

/** One pattern for each sign. A definition is searched without accents, so the patterns have none either. */
const PATTERNS = Object.entries(SIGNS).map(([sign, sources]) => {
  return { sign: sign as Sign, pattern: new RegExp(withoutAccents(sources.join('|')), 'iu') }
})

/** The combinations that reveal a poisoned definition, the most certain first. */
const COMBINATIONS: readonly { signs: readonly Sign[]; confidence: number }[] = [
  { signs: ['conceals', 'reads', 'carries'], confidence: 0.97 },
  { signs: ['conceals', 'sends'], confidence: 0.95 },
  { signs: ['reads', 'carries', 'tags'], confidence: 0.95 },
  { signs: ['reads', 'carries', 'commands'], confidence: 0.92 },
  { signs: ['conceals', 'carries', 'commands'], confidence: 0.92 },
  { signs: ['reads', 'sends'], confidence: 0.9 },
  { signs: ['sends', 'shadows'], confidence: 0.88 },
  { signs: ['conceals', 'reads', 'tags'], confidence: 0.9 },
  { signs: ['sends', 'commands'], confidence: 0.55 },
  { signs: ['conceals', 'commands'], confidence: 0.55 },
  { signs: ['conceals', 'reads'], confidence: 0.55 },
  { signs: ['conceals', 'carries'], confidence: 0.55 },
  { signs: ['conceals', 'tags'], confidence: 0.55 },
]
/** Text that people do not see has no place in a definition. */
const HIDDEN_TEXT = 0.95
/** Phrases of other attacks that count. Weaker phrases occur in honest definitions. */
const LEAST_PHRASE = 0.8
const OTHER_CATEGORIES: ReadonlySet<ShieldCategory> = new Set(['prompt_injection', 'jailbreak', 'prompt_leaking'])

/** Returns the poison in a text about a tool. Undefined if there is none. */
export function poisonIn(text: string): Poison | undefined {
  const { clean, spelled, words } = readText(text)
  const signs = new Set(PATTERNS.filter(({ pattern }) => pattern.test(spelled)).map(({ sign }) => sign))
  // Who commands other tools also prescribes an order.
  if (signs.has('shadows')) signs.add('commands')
  const combination = COMBINATIONS.find((one) => one.signs.every((sign) => signs.has(sign)))
  const confidence = Math.max(combination?.confidence ?? 0, clean.tags === '' ? 0 : HIDDEN_TEXT)
  const phrases = findPhrases(words, 0, words.words.length)
    .map(({ phrase: { category, confidence } }) => ({ category, confidence }))
    .filter((one) => one.confidence >= LEAST_PHRASE && OTHER_CATEGORIES.has(one.category))
    .sort((one, other) => other.confidence - one.confidence)
  if (confidence >= (phrases[0]?.confidence ?? 0)) {
    return confidence > 0 ? { category: 'tool_poisoning', confidence } : undefined
  }
  return phrases[0]
}
