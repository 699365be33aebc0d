// The trained classifier of the prompt shield.
import { brotliDecompressSync } from 'node:zlib'
import { FEATURES, type Features } from './features.ts'
import type { NetworkWeights, Weights } from './network-weights.ts'
import { WEIGHTS } from './weights.ts'

export type Classifier = {
  /**
   * Returns the logit. If the logit is above 0, an attack is more likely than not, given the class weights that the
   * training used.
   */
  logit(features: Features): number
  riskScore(logit: number): number
}

/** Creates a classifier. @throws Error if the weights were trained for other features */
export function classifierOf({ networks, anchors }: Weights): Classifier {
  const logits = networks.map(logitOf)
  return {
    logit: (features) => logits.reduce((sum, logit) => sum + logit(features), 0),
    riskScore: (logit) => interpolated(anchors, logit),
  }
}

function logitOf({ from, hidden, bias, hiddenBias, output, scales, bytes }: NetworkWeights): Classifier['logit'] {
  const raw = brotliDecompressSync(Buffer.from(bytes, 'base64'))
  const row = hidden + 1
  if (raw.length !== (FEATURES - from) * row)
    throw new Error('the weights of the prompt shield do not match its features')
  const table = new Int8Array(raw.buffer, raw.byteOffset, raw.length)
  const sums = new Float64Array(row)
  return ({ indices, values }) => {
    sums.fill(0)
    for (let at = 0; at < indices.length; at++) {
      if (indices[at]! < from) continue
      const start = (indices[at]! - from) * row
      const value = values[at]!
      for (let column = 0; column < row; column++) sums[column]! += table[start + column]! * value
    }
    let logit = bias + sums[0]! * scales[0]!
    for (let unit = 0; unit < hidden; unit++) {
      logit += output[unit]! * Math.max(0, hiddenBias[unit]! + sums[unit + 1]! * scales[unit + 1]!)
    }
    return logit
  }
}

function interpolated(anchors: Weights['anchors'], logit: number): number {
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
