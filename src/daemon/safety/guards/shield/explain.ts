// Explains a scan to people: what the layers found in each piece of the text.
import { SHIELD_EXPLAINED_PIECES } from '../../../../shared/spec-limits.ts'
import type { ShieldCategory } from '../../../../shared/wire/shield.ts'
import type { Classifier } from './classifier.ts'
import { dataEvidence, type Evidence, firstOfEach, markEvidence, phraseEvidence, riskOf, short } from './evidence.ts'
import type { TextFeatures } from './features.ts'
import type { Block, PartReading } from './readings.ts'
import type { TextSource } from './source.ts'
import type { Piece } from './units.ts'

/** A part of the text after the scan. `logits`: those of its pieces, if there is a classifier. */
type JudgedPart = {
  part: PartReading
  features: TextFeatures
  evidence: readonly Evidence[]
  logits: Float64Array | undefined
}

type ExplainedPiece = {
  /** Offsets in the scanned text. Null if the shield read a changed text here. */
  start: number | null
  end: number | null
  hiddenBy: string | null
  /** An excerpt. */
  text: string
  words: number
  riskScore: number
  probability: number | null
  /** Whether the piece has the highest score of all pieces. */
  decides: boolean
  findings: Evidence[]
}

export type Explanation = {
  source: TextSource
  pieces: ExplainedPiece[]
  omittedPieces: number
  /** The findings that concern the whole text. */
  findings: Evidence[]
  calibration: { pieces: number; scoreAsOnePiece: number | null }
  builtInScore: number
  /** The result of the operator's model. Null if it did not answer. */
  model?: { probability: number | null }
  judge?: { attack: boolean; category: ShieldCategory | null; confidence: number; readAll: boolean }
}

/** The pieces of a part that people read: the smallest pieces, which together cover it, and the one that decides. */
export type ExplainedPart = { pieces: Draft[]; count: number; findings: Evidence[] }

/** A piece without the scores that depend on the whole text. */
type Draft = Omit<ExplainedPiece, 'riskScore' | 'probability' | 'decides'> & { logit: number | undefined }

/** Explains a part. A scan calls this function for each part, so that no turn of the event loop becomes long. */
export function explainPart(judged: JudgedPart, source: TextSource): ExplainedPart {
  const { part, features, evidence, logits } = judged
  const offsetAt = part.block && offsetsIn(part.reading.clean.text, part.block)
  return {
    pieces: piecesToShow(judged).map((at) => {
      const piece = features.pieces[at]!
      return { ...placeOf(piece, judged, offsetAt), logit: logits?.[at], findings: findingsIn(piece, judged, source) }
    }),
    count: features.pieces.length,
    findings: evidence.filter(isAboutWhole),
  }
}

type Total = { source: TextSource; riskScore: number; classifier: Classifier | undefined }

/** Combines the explanations of all parts. */
export function explanationOf(parts: readonly ExplainedPart[], { source, riskScore, classifier }: Total): Explanation {
  const count = parts.reduce((sum, part) => sum + part.count, 0)
  const drafts = parts.flatMap(({ pieces }) => pieces)
  const rankOf = ({ logit, findings }: Draft) => logit ?? riskOf(findings)
  const ranked = drafts.toSorted((one, other) => rankOf(other) - rankOf(one))
  const shown = new Set(ranked.slice(0, SHIELD_EXPLAINED_PIECES))
  const [worst] = ranked
  const scoreOf = (logit: number, pieces: number) => Math.round(classifier?.riskScore(logit, pieces, source) ?? 0)
  return {
    source,
    pieces: drafts
      .filter((one) => shown.has(one))
      .map(({ logit, ...one }) => ({
        ...one,
        riskScore: logit === undefined ? Math.round(riskOf(one.findings)) : scoreOf(logit, count),
        probability: logit === undefined ? null : Math.round(100 / (1 + Math.exp(-logit))) / 100,
        decides: logit !== undefined && logit === worst?.logit,
      })),
    omittedPieces: drafts.length - shown.size,
    findings: parts.flatMap(({ findings }) => findings),
    calibration: { pieces: count, scoreAsOnePiece: worst?.logit === undefined ? null : scoreOf(worst.logit, 1) },
    builtInScore: riskScore,
  }
}

/** Returns the indices of the smallest pieces that cover the part, and of its piece with the highest logit. */
function piecesToShow({ features, logits }: JudgedPart): number[] {
  const { pieces } = features
  const shown = new Set<number>()
  const covered = new Set<number>()
  for (const [at, { from, to }] of pieces.entries()) {
    for (let unit = from; unit < to; unit++) {
      if (covered.has(unit)) continue
      covered.add(unit)
      shown.add(at)
    }
  }
  if (logits && logits.length > 0) shown.add(logits.indexOf(logits.reduce((most, one) => Math.max(most, one))))
  return [...shown].sort((one, other) => pieces[one]!.from - pieces[other]!.from)
}

/** Returns the part's evidence that lies in a piece. */
function findingsIn({ from, to }: Piece, { part, features, evidence }: JudgedPart, source: TextSource): Evidence[] {
  const { words, units, phrases } = features
  const [first, end] = [units[from]!.from, units[to - 1]!.to]
  const { reading } = part
  const spelled = reading.spelled.slice(words.starts[first], words.starts[end])
  const found = [
    ...markEvidence({ spelled }),
    ...phraseEvidence(words, reading, firstOfEach(phrases.filter((hit) => hit.first >= first && hit.last < end))),
    ...dataEvidence({ words, units: units.slice(from, to) }, reading, source),
  ]
  // A mark may begin at the beginning of the piece, but not at the beginning of a line. The scan does not count it.
  const known = new Set(evidence.map(({ pattern }) => pattern))
  return found.filter(({ pattern }) => known.has(pattern))
}

const isAboutWhole = ({ layer, category }: Evidence): boolean => layer === 'heuristic' && category === 'obfuscation'

type ToOffset = (at: number) => number | null

function placeOf(piece: Piece, { part, features }: JudgedPart, offsetAt: ToOffset | undefined) {
  const { words, units } = features
  const [first, end] = [units[piece.from]!.from, units[piece.to - 1]!.to]
  const from = words.starts[first]!
  const text = part.reading.spelled.slice(from, words.starts[end]).trimEnd()
  const [start, stop] = [offsetAt?.(from) ?? null, offsetAt?.(from + text.length) ?? null]
  const isKnown = start !== null && stop !== null
  return {
    start: isKnown ? start : null,
    end: isKnown ? stop : null,
    hiddenBy: part.hiddenBy ?? null,
    text: short(text),
    words: end - first,
  }
}

/**
 * Converts offsets of a cleaned text to offsets of the scanned text. Returns null between the first and the last
 * change, because the cleaning does not record which characters it changed.
 */
function offsetsIn(clean: string, { text, start }: Block): ToOffset {
  const length = text.trimEnd().length
  const most = Math.min(clean.length, length)
  let before = 0
  while (before < most && clean[before] === text[before]) before++
  let after = 0
  while (after < most - before && clean[clean.length - 1 - after] === text[length - 1 - after]) after++
  return (at) => {
    if (at <= before) return start + at
    return at >= clean.length - after ? start + length - clean.length + at : null
  }
}
