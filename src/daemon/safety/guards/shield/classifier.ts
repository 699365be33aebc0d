// The trained classifier of the prompt shield.
import { brotliDecompressSync } from 'node:zlib'
import { addNamed, FEATURES, GROUPS, type TextFeatures, valueInGroup } from './features.ts'
import type { NetworkWeights, Weights } from './network-weights.ts'
import type { TextSource } from './source.ts'
import { LARGE_SCALE, type Piece, WHOLE_SCALE } from './units.ts'
import { WEIGHTS } from './weights.ts'

export type Classifier = {
  /**
   * Returns the logit of each piece of a text. If a logit is above 0, an attack is more likely than not, given the
   * class weights that the training used.
   */
  logits(text: TextFeatures, source: TextSource): Float64Array
  /** Returns the risk score of a text. @param logit the highest logit of its pieces @param pieces their number */
  riskScore(logit: number, pieces: number, source: TextSource): number
}

/** A network with its weights as arrays. Each feature has 1 + `hidden` weights: the first one adds to the logit. */
type Network = {
  from: number
  hidden: number
  bias: number
  hiddenBias: readonly number[]
  output: readonly number[]
  scales: readonly number[]
  table: Int8Array
}

/** The number of pieces of a short text. More pieces reach a high logit by chance more often. */
const FEW_PIECES = 12

/** Returns how often the number of pieces of a short text must double to reach this number. */
export const doublingsOf = (pieces: number): number => Math.log2(Math.max(1, pieces / FEW_PIECES))

/** Creates a classifier. @throws Error if the weights were trained for other features */
export function classifierOf({ networks, anchors, perDoubling }: Weights): Classifier {
  const tables = networks.map(networkOf)
  return {
    logits(text, source) {
      const sums = tables.map((network) => (network.from === 0 ? sumsOfUnits(network, text) : undefined))
      const logitsOf = (pieces: readonly Piece[]) => {
        const logits = new Float64Array(pieces.length)
        const named = namedOf(text, pieces, source)
        for (const [at, network] of tables.entries()) addLogits(network, sums[at], text, pieces, named, logits)
        return logits
      }
      const logits = logitsOf(text.pieces)
      isolate(text, logits, logitsOf)
      return logits
    },
    riskScore: (logit, pieces, source) => interpolated(anchors[source], logit - perDoubling * doublingsOf(pieces)),
  }
}

function networkOf({ bytes, ...rest }: NetworkWeights): Network {
  const raw = brotliDecompressSync(Buffer.from(bytes, 'base64'))
  if (raw.length !== (FEATURES - rest.from) * (rest.hidden + 1))
    throw new Error('the weights of the prompt shield do not match its features')
  return { ...rest, table: new Int8Array(raw.buffer, raw.byteOffset, raw.length) }
}

/** From this logit, the surroundings of a piece are searched for a request that would be an attack alone. */
const SUSPICIOUS = 0
/** Longer texts are not searched, because one of many harmless sentences often looks like an attack alone. */
const MOST_UNITS = 24
/** The number of units by which the searched ranges differ from the piece, on each side. */
const AROUND = 3
/** A range counts less than the same words alone, because other text around it makes an attack less likely. */
const INSIDE = 1

/**
 * Raises the logit of the most suspicious piece if a range of units near it has a higher logit as a text of its own.
 * Pieces have fixed sizes, so they rarely begin and end where an attack inside other text does. Few texts are suspicious,
 * so the search costs little.
 */
function isolate(
  { units, pieces }: TextFeatures,
  logits: Float64Array,
  logitsOf: (pieces: readonly Piece[]) => Float64Array,
): void {
  if (units.length < 2 || units.length > MOST_UNITS) return
  let center = -1
  let most = Number.NEGATIVE_INFINITY
  for (const [at, { scale }] of pieces.entries()) {
    most = Math.max(most, logits[at]!)
    if (scale < LARGE_SCALE && (center < 0 || logits[at]! > logits[center]!)) center = at
  }
  if (center < 0 || most < SUSPICIOUS) return
  const { from, to } = pieces[center]!
  const ranges: Piece[] = []
  for (let first = Math.max(0, from - AROUND); first <= Math.min(from + AROUND, to - 1); first++) {
    for (let last = Math.max(first + 1, to - AROUND); last <= Math.min(to + AROUND, units.length); last++) {
      if (last - first < units.length) ranges.push({ from: first, to: last, scale: WHOLE_SCALE, isAlone: true })
    }
  }
  for (const logit of logitsOf(ranges)) logits[center] = Math.max(logits[center]!, logit - INSIDE)
}

/** The named features of all pieces: those of piece `p` begin at `ends[p - 1]`. */
type Named = { indices: number[]; values: number[]; ends: number[] }

function namedOf(text: TextFeatures, pieces: readonly Piece[], source: TextSource): Named {
  const named: Named = { indices: [], values: [], ends: [] }
  for (const piece of pieces) {
    addNamed(text, piece, source, (index, value) => {
      named.indices.push(index)
      named.values.push(value)
    })
    named.ends.push(named.indices.length)
  }
  return named
}

function addLogits(
  network: Network,
  sums: Int32Array | undefined,
  text: TextFeatures,
  pieces: readonly Piece[],
  named: Named,
  logits: Float64Array,
): void {
  const { from, hidden, bias, hiddenBias, output, scales, table } = network
  const row = hidden + 1
  const total = new Float64Array(row)
  let at = 0
  for (const [number, piece] of pieces.entries()) {
    total.fill(0)
    if (sums) addUnits(total, sums, text, piece.from, piece.to)
    for (const end = named.ends[number]!; at < end; at++) {
      const start = (named.indices[at]! - from) * row
      const value = named.values[at]!
      for (let column = 0; column < row; column++) total[column]! += table[start + column]! * value
    }
    let logit = bias + total[0]! * scales[0]!
    for (let unit = 0; unit < hidden; unit++) {
      logit += output[unit]! * Math.max(0, hiddenBias[unit]! + total[unit + 1]! * scales[unit + 1]!)
    }
    logits[number]! += logit
  }
}

/** Returns the sums of the weights of all units before each unit, per group of features. */
function sumsOfUnits({ hidden, table }: Network, { units, indices, starts }: TextFeatures): Int32Array {
  const row = hidden + 1
  const width = GROUPS.length * row
  const sums = new Int32Array((units.length + 1) * width)
  for (let cell = 0; cell < units.length * GROUPS.length; cell++) {
    const before = cell * row
    const after = before + width
    for (let column = 0; column < row; column++) sums[after + column] = sums[before + column]!
    for (let at = starts[cell]!; at < starts[cell + 1]!; at++) {
      const start = indices[at]! * row
      for (let column = 0; column < row; column++) sums[after + column]! += table[start + column]!
    }
  }
  return sums
}

function addUnits(total: Float64Array, sums: Int32Array, { starts }: TextFeatures, from: number, to: number): void {
  const row = total.length
  for (const [group, { weight }] of GROUPS.entries()) {
    let count = 0
    for (let unit = from; unit < to; unit++) {
      const cell = unit * GROUPS.length + group
      count += starts[cell + 1]! - starts[cell]!
    }
    const value = valueInGroup(weight, count)
    const first = (from * GROUPS.length + group) * row
    const last = (to * GROUPS.length + group) * row
    for (let column = 0; column < row; column++)
      total[column]! += (sums[last + column]! - sums[first + column]!) * value
  }
}

function interpolated(anchors: Weights['anchors'][TextSource], logit: number): number {
  let [lastLogit, lastScore] = anchors[0]!
  if (logit <= lastLogit) return lastScore
  for (const [nextLogit, nextScore] of anchors) {
    if (logit <= nextLogit) {
      return lastScore + ((nextScore - lastScore) * (logit - lastLogit)) / Math.max(1e-9, nextLogit - lastLogit)
    }
    lastLogit = nextLogit
    lastScore = nextScore
  }
  return lastScore
}

let trained: Classifier | undefined

/** Returns the classifier with the shipped weights. They are decompressed on first use. */
export function trainedClassifier(): Classifier {
  trained ??= classifierOf(WEIGHTS)
  return trained
}
