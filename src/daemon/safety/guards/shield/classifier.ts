// The trained classifier of the prompt shield.
import { brotliDecompressSync } from 'node:zlib'
import { addNamed, FEATURES, GROUPS, type TextFeatures, valueInGroup } from './features.ts'
import type { NetworkWeights, Weights } from './network-weights.ts'
import type { TextSource } from './source.ts'
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

/** Creates a classifier. @throws Error if the weights were trained for other features */
export function classifierOf({ networks, anchors, perDoubling }: Weights): Classifier {
  const tables = networks.map(networkOf)
  return {
    logits(text, source) {
      const logits = new Float64Array(text.pieces.length)
      const named = namedOf(text, source)
      for (const network of tables) addLogits(network, text, named, logits)
      return logits
    },
    riskScore: (logit, pieces, source) =>
      interpolated(anchors[source], logit - perDoubling * Math.log2(Math.max(1, pieces))),
  }
}

function networkOf({ bytes, ...rest }: NetworkWeights): Network {
  const raw = brotliDecompressSync(Buffer.from(bytes, 'base64'))
  if (raw.length !== (FEATURES - rest.from) * (rest.hidden + 1))
    throw new Error('the weights of the prompt shield do not match its features')
  return { ...rest, table: new Int8Array(raw.buffer, raw.byteOffset, raw.length) }
}

/** The named features of all pieces: those of piece `p` begin at `ends[p - 1]`. */
type Named = { indices: number[]; values: number[]; ends: number[] }

function namedOf(text: TextFeatures, source: TextSource): Named {
  const named: Named = { indices: [], values: [], ends: [] }
  for (const piece of text.pieces) {
    addNamed(text, piece, source, (index, value) => {
      named.indices.push(index)
      named.values.push(value)
    })
    named.ends.push(named.indices.length)
  }
  return named
}

function addLogits(network: Network, text: TextFeatures, named: Named, logits: Float64Array): void {
  const { from, hidden, bias, hiddenBias, output, scales, table } = network
  const row = hidden + 1
  const readsWords = from === 0
  const sums = readsWords ? sumsOfUnits(network, text) : undefined
  const total = new Float64Array(row)
  let at = 0
  for (const [number, piece] of text.pieces.entries()) {
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
