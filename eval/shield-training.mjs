// Trains the shield's classifier: `train(examples)` returns weights. It uses plain arithmetic on one thread, so the
// same seed gives the same weights.
import { brotliCompressSync } from 'node:zlib'
import { randomOf } from './shield-grammar.mjs'

export const TRAINING = {
  seed: 1,
  /**
   * The numbers of hidden units of two networks: one network uses all features, the other uses only the named features.
   */
  hidden: [10, 8],
  epochs: 9,
  rate: 0.05,
  /**
   * Share of features that are dropped from each example. Without this dropout, the result would depend on a few
   * features.
   */
  dropout: 0.5,
  /** Weight of rows in large sets. With 0, all sets have equal weight. With 1, all rows have equal weight. */
  balance: 0.5,
}

/**
 * Trains two networks.
 * @param examples `[{ set, label, windows: [{ indices, values }] }]`
 * @param features the number of features and the index of the first named feature
 * @returns networks whose logits are summed
 */
export function train(examples, { count, named }, settings = TRAINING) {
  return [0, named].map((from, at) =>
    trainNetwork(examples, { from, count }, { ...settings, hidden: settings.hidden[at] }),
  )
}

export const logitOf = (networks, window) => networks.reduce((sum, network) => sum + forward(network, window), 0)

function trainNetwork(examples, { from, count }, { seed, hidden, epochs, rate, dropout, balance }) {
  const random = randomOf(seed)
  const network = emptyNetwork(from, count - from, hidden, random)
  const samples = weighted(examples, balance)
  const best = new Map()
  for (let epoch = 0; epoch < epochs; epoch++) {
    shuffle(samples, random)
    for (const { example, window, weight } of samples) {
      // A long attack also contains harmless windows, so after the first epoch only its highest-scoring window is used.
      if (best.has(example) && best.get(example) !== window) continue
      learn(network, thinned(window, network.from, dropout, random), example.label, weight, rate)
    }
    for (const example of examples) {
      if (example.label === 1 && example.windows.length > 1) {
        best.set(
          example,
          highest(example.windows, (window) => forward(network, window)),
        )
      }
    }
  }
  return network
}

function emptyNetwork(from, features, hidden, random) {
  // The second array contains sums of squared gradients (AdaGrad). These sums give rare features larger steps.
  const pair = (length, spread = 0) => [
    Float32Array.from({ length }, () => (random() - 0.5) * spread),
    new Float32Array(length).fill(1e-4),
  ]
  return {
    from,
    hidden,
    bias: pair(1),
    direct: pair(features),
    inner: pair(features * hidden, 0.3),
    hiddenBias: pair(hidden),
    output: pair(hidden, 1),
    active: new Float32Array(hidden),
  }
}

function weighted(examples, balance) {
  const groupOf = ({ set, label }) => `${set}:${label}`
  const sizes = new Map()
  for (const example of examples) sizes.set(groupOf(example), (sizes.get(groupOf(example)) ?? 0) + 1)
  const totals = [0, 0]
  for (const [group, size] of sizes) totals[Number(group.at(-1))] += size ** balance
  const samples = examples.flatMap((example) => {
    const weight = sizes.get(groupOf(example)) ** (balance - 1) / totals[example.label]
    return example.windows.map((window) => ({ example, window, weight }))
  })
  const mean = samples.reduce((sum, { weight }) => sum + weight, 0) / samples.length
  for (const sample of samples) sample.weight = Math.min(10, sample.weight / mean)
  return samples
}

function shuffle(list, random) {
  for (let last = list.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1))
    ;[list[last], list[other]] = [list[other], list[last]]
  }
}

function thinned({ indices, values }, from, dropout, random) {
  const kept = { indices: [], values: [] }
  for (let at = 0; at < indices.length; at++) {
    if (indices[at] < from || random() < dropout) continue
    kept.indices.push(indices[at])
    kept.values.push(values[at] / (1 - dropout))
  }
  return kept
}

function forward({ from, hidden, bias, direct, inner, hiddenBias, output, active }, { indices, values }) {
  let logit = bias[0][0]
  active.set(hiddenBias[0])
  for (let at = 0; at < indices.length; at++) {
    if (indices[at] < from) continue
    const value = values[at]
    const index = indices[at] - from
    const start = index * hidden
    logit += direct[0][index] * value
    for (let unit = 0; unit < hidden; unit++) active[unit] += inner[0][start + unit] * value
  }
  for (let unit = 0; unit < hidden; unit++) {
    if (active[unit] < 0) active[unit] = 0
    logit += output[0][unit] * active[unit]
  }
  return logit
}

function step([weights, squares], at, gradient, rate) {
  if (gradient === 0) return
  squares[at] += gradient * gradient
  weights[at] -= (rate * gradient) / Math.sqrt(squares[at])
}

function learn(network, window, label, weight, rate) {
  const error = (1 / (1 + Math.exp(-forward(network, window))) - label) * weight
  if (Math.abs(error) < 1e-4) return
  const { hidden, bias, direct, inner, hiddenBias, output, active } = network
  const back = Array.from(active, (value, unit) => (value > 0 ? error * output[0][unit] : 0))
  for (let unit = 0; unit < hidden; unit++) {
    step(hiddenBias, unit, back[unit], rate)
    step(output, unit, error * active[unit], rate)
  }
  for (let at = 0; at < window.indices.length; at++) {
    const index = window.indices[at] - network.from
    const value = window.values[at]
    step(direct, index, error * value, 2 * rate)
    for (let unit = 0; unit < hidden; unit++) step(inner, index * hidden + unit, back[unit] * value, rate)
  }
  step(bias, 0, error, rate)
}

const highest = (list, score) => list.reduce((best, one) => (score(one) > score(best) ? one : best))

/** Converts the networks to the shipped form: one signed byte per weight, compressed. */
export const quantised = (networks, anchors) => ({ networks: networks.map(quantisedNetwork), anchors })

function quantisedNetwork({ from, hidden, bias, direct, inner, hiddenBias, output }) {
  const columns = [
    direct[0],
    ...Array.from({ length: hidden }, (_, unit) => inner[0].filter((_, at) => at % hidden === unit)),
  ]
  // Clips the few largest weights of each column. A scale that fits them would reduce the precision of small weights.
  const scales = columns.map((column) => {
    const sizes = Float32Array.from(column, Math.abs).sort()
    return sizes[Math.floor(sizes.length * 0.9995)] / 127 || 1
  })
  const features = direct[0].length
  const bytes = new Int8Array(features * (hidden + 1))
  for (let index = 0; index < features; index++) {
    for (const [at, column] of columns.entries()) {
      bytes[index * (hidden + 1) + at] = Math.max(-127, Math.min(127, Math.round(column[index] / scales[at])))
    }
  }
  const numbers = (list) => Array.from(list, (value) => Number(value.toPrecision(7)))
  return {
    from,
    hidden,
    bias: bias[0][0],
    hiddenBias: numbers(hiddenBias[0]),
    output: numbers(output[0]),
    scales: numbers(scales),
    bytes: brotliCompressSync(bytes).toString('base64'),
  }
}
