/** Small networks whose logits are added. Every feature speaks for itself and through a few hidden units. */
export type Weights = {
  networks: readonly NetworkWeights[]
  /** Logits and the risk scores they stand for, rising. */
  anchors: readonly (readonly [logit: number, riskScore: number])[]
}

export type NetworkWeights = {
  /** It looks at features from this number on. */
  from: number
  hidden: number
  bias: number
  hiddenBias: readonly number[]
  output: readonly number[]
  /** What a step of a byte is worth, for the feature itself and for each hidden unit. */
  scales: readonly number[]
  /** For each feature 1 + `hidden` signed bytes, compressed with Brotli, in base64. */
  bytes: string
}
