import type { TextSource } from './source.ts'

/**
 * The weights of small networks whose logits are added. Each feature contributes to its network's logit directly and
 * through a few hidden units.
 */
export type Weights = {
  networks: readonly NetworkWeights[]
  /** For each source, pairs of a logit and its risk score, in ascending order. */
  anchors: Readonly<Record<TextSource, readonly (readonly [logit: number, riskScore: number])[]>>
  /**
   * The number that is subtracted from the logit of a text whenever its number of pieces doubles, beyond the number of a
   * short text. A text with more pieces would otherwise reach a high logit more often by chance.
   */
  perDoubling: number
}

export type NetworkWeights = {
  /** The index of the network's first feature. */
  from: number
  hidden: number
  bias: number
  hiddenBias: readonly number[]
  output: readonly number[]
  /**
   * Factors that convert bytes to weights: first the factor of the direct weight, then the factor of each hidden unit.
   */
  scales: readonly number[]
  /** For each feature, 1 + `hidden` signed bytes. Compressed with Brotli, then encoded as base64. */
  bytes: string
}
