import { SHIELD_CATEGORIES, type ShieldCategory, type ShieldLayer } from '../../../../shared/wire/shield.ts'
import type { Encoding } from './decoders.ts'
import type { TextFeatures } from './features.ts'
import type { PhraseHit } from './phrases.ts'
import type { Reading } from './reading.ts'
import { isData, type TextSource } from './source.ts'
import type { Words } from './words.ts'

/**
 * A piece of evidence for an attack. `matched` is a part of the text, so it must be omitted when evidence is stored.
 */
export type Evidence = {
  layer: ShieldLayer
  pattern: string
  category: ShieldCategory
  /** 0 to 1. */
  confidence: number
  matched: string
}

const MATCHED_CHARS = 80
/**
 * How many characters of text are read for an excerpt. This number exceeds MATCHED_CHARS, because whitespace is
 * collapsed afterwards.
 */
const READ_CHARS = 4 * MATCHED_CHARS

/** Patterns of markup and prompt delimiters that indicate an attack. */
const MARKS: readonly { id: string; category: ShieldCategory; confidence: number; pattern: RegExp }[] = [
  {
    id: 'chat-template-token',
    category: 'prompt_injection',
    confidence: 0.7,
    pattern:
      /<\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id|end_of_turn)\|>|<<\/?SYS>>|\[\/INST\]|<(?:start|end)_of_turn>/i,
  },
  {
    id: 'image-that-sends-data',
    category: 'data_extraction',
    confidence: 0.6,
    pattern: /!\[[^\][\n]{0,100}\]\(https?:[^)\s]{0,200}[?&][^)\s=]{1,40}=/i,
  },
  {
    id: 'end-of-prompt-marker',
    category: 'prompt_injection',
    confidence: 0.6,
    pattern:
      /(?:^|\n)[ \t=#*-]{0,12}(?:end of (?:system )?(?:prompt|instructions|context)|new instructions?|system override)[ \t=#*:-]{0,12}(?:\n|$)/i,
  },
]

/** Returns the evidence that the regex layer finds: phrases in any language, and marks. */
export function phraseEvidence(words: Words, { spelled }: Reading, hits: readonly PhraseHit[]): Evidence[] {
  return hits.map(({ phrase, first, last }) => ({
    layer: 'regex',
    pattern: phrase.id,
    category: phrase.category,
    confidence: phrase.confidence,
    matched: short(spelled.slice(words.starts[first], words.starts[last]! + words.words[last]!.length)),
  }))
}

/** Returns the first hit of each phrase. */
export const firstOfEach = (hits: readonly PhraseHit[]): PhraseHit[] =>
  [...new Map(hits.toReversed().map((hit) => [hit.phrase, hit])).values()].reverse()

export function markEvidence({ spelled }: Pick<Reading, 'spelled'>): Evidence[] {
  return MARKS.flatMap(({ id, category, confidence, pattern }) => {
    const matched = pattern.exec(spelled)?.[0]
    return matched === undefined
      ? []
      : [{ layer: 'regex', pattern: id, category, confidence, matched: short(matched.trim()) } as const]
  })
}

/** Returns evidence of manipulated letters. Such letters make people see a different text than the model receives. */
export function letterEvidence({ clean }: Reading): Evidence[] {
  const found: Evidence[] = []
  const add = (pattern: string, confidence: number, matched: string) =>
    found.push({ layer: 'heuristic', pattern, category: 'obfuscation', confidence, matched })
  if (clean.tags !== '') add('hidden-tags', 0.8, short(clean.tags))
  if (clean.invisible >= 4) add('invisible-characters', 0.35, `${clean.invisible} characters`)
  if (clean.lookalikes >= 2) add('lookalike-letters', 0.5, `${clean.lookalikes} words`)
  return found
}

/**
 * Returns the evidence for a request that was hidden by an encoding. Hiding a request is itself evidence of an attack.
 */
export const hidingEvidence = (encoding: Encoding, text: string): Evidence => ({
  layer: 'heuristic',
  pattern: `hidden-by-${encoding}`,
  category: 'obfuscation',
  confidence: 0.5,
  matched: short(text),
})

/** For a text that should only be data, returns evidence that the text contains requests to the assistant. */
export function dataEvidence(
  { words, units }: Pick<TextFeatures, 'words' | 'units'>,
  { spelled }: Reading,
  source: TextSource,
): Evidence[] {
  if (!isData(source)) return []
  const request = units.find((unit) => unit.commands && unit.addressed)
  if (request === undefined) return []
  const matched = short(spelled.slice(words.starts[request.from], words.starts[request.to] ?? spelled.length))
  return [{ layer: 'heuristic', pattern: 'request-in-data', category: 'indirect_injection', confidence: 0.45, matched }]
}

/** Returns an excerpt in one line. */
export const short = (text: string): string => {
  const line = text.slice(0, READ_CHARS).replace(/\s+/g, ' ')
  if (line.length <= MATCHED_CHARS) return line
  return `${line.slice(0, MATCHED_CHARS - 1).replace(/[\ud800-\udbff]$/, '')}…`
}

/** Returns the risk score, 0 to 100: the combined confidence of independent pieces of evidence. */
export function riskOf(evidence: readonly Evidence[]): number {
  const doubt = strongest(evidence, 4).reduce((rest, { confidence }) => rest * (1 - confidence), 1)
  return 100 * (1 - doubt)
}

export const strongest = (evidence: readonly Evidence[], count: number): Evidence[] =>
  [...evidence].sort((one, other) => other.confidence - one.confidence).slice(0, count)

/**
 * Returns the category with the most evidence. Evidence of `obfuscation` has only a quarter of its weight, because it
 * does not show the goal of the attack.
 */
export function categoryOf(evidence: readonly Evidence[]): ShieldCategory | null {
  const sums = new Map<ShieldCategory, number>()
  for (const { category, confidence } of evidence) {
    const weight = category === 'obfuscation' ? confidence / 4 : confidence
    sums.set(category, (sums.get(category) ?? 0) + weight)
  }
  let best: ShieldCategory | null = null
  for (const category of Object.keys(SHIELD_CATEGORIES) as ShieldCategory[]) {
    if (sums.has(category) && (best === null || sums.get(category)! > sums.get(best)!)) best = category
  }
  return best
}
