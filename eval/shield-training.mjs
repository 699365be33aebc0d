// Trains the shield's classifier. It uses plain arithmetic on one thread, so the same seed gives the same weights.
import { brotliCompressSync } from 'node:zlib'
import { randomOf } from './shield-grammar.mjs'

export const TRAINING = {
  seed: 1,
  /** The networks whose logits are added. The second one reads only the named features, which depend less on wording. */
  networks: [
    { reads: 'all', hidden: 12 },
    { reads: 'named', hidden: 8 },
  ],
  epochs: 8,
  rate: 0.05,
  /**
   * Share of features that are dropped from each example. Without this dropout, the result would depend on a few
   * features.
   */
  dropout: 0.4,
  /** Weight of rows in large sets. With 0, all sets have equal weight. With 1, all rows have equal weight. */
  balance: 0.5,
}

/**
 * Stores the features of many texts in few arrays, because training reads them many times.
 * @param shape `{ groups, valueInGroup, named }` of features.ts
 */
export function createStore({ groups, valueInGroup, addNamed }) {
  const words = growing(Int32Array)
  const cells = growing(Int32Array)
  const namedIndices = growing(Int32Array)
  const namedValues = growing(Float32Array)
  const pieces = growing(Int32Array)
  cells.push(0)
  return {
    groups,
    valueInGroup,
    words,
    cells,
    namedIndices,
    namedValues,
    /** Five numbers per piece: first cell, last cell, first named feature, last named feature, scale. */
    pieces,
    /** Adds the readings of a text once for each source. Returns the range of pieces for each source. */
    add(readings, sources) {
      const bases = readings.map((text) => {
        const base = cells.length - 1
        const before = words.length
        words.pushAll(text.indices)
        for (let cell = 1; cell < text.starts.length; cell++) cells.push(before + text.starts[cell])
        return base
      })
      return sources.map((source) => {
        const first = pieces.length / 5
        for (const [at, text] of readings.entries()) addPieces(text, bases[at], source)
        return { source, first, last: pieces.length / 5 }
      })
    },
  }

  function addPieces(text, base, source) {
    const width = groups.length
    for (const piece of text.pieces) {
      const from = namedIndices.length
      addNamed(text, piece, source, (index, value) => {
        namedIndices.push(index)
        namedValues.push(value)
      })
      pieces.pushAll([base + piece.from * width, base + piece.to * width, from, namedIndices.length, piece.scale])
    }
  }
}

/** An array of numbers that grows. */
function growing(Type) {
  return {
    list: new Type(1 << 16),
    length: 0,
    push(value) {
      if (this.length === this.list.length) this.grow(this.length + 1)
      this.list[this.length++] = value
    },
    pushAll(values) {
      if (this.length + values.length > this.list.length) this.grow(this.length + values.length)
      this.list.set(values, this.length)
      this.length += values.length
    },
    grow(least) {
      const longer = new Type(Math.max(least, 2 * this.list.length))
      longer.set(this.list)
      this.list = longer
    },
  }
}

/**
 * Trains two networks.
 * @param store the features of all texts
 * @param examples `[{ set, label, first, last, isInside, weight }]`, where `first` and `last` are a range of pieces
 * @param features the number of features and the index of the first named feature
 * @returns networks whose logits are summed
 */
export function train(store, examples, { count, named }, options = {}) {
  const settings = { ...TRAINING, ...options }
  return settings.networks.map(({ reads, hidden }, at) =>
    trainNetwork(
      store,
      examples,
      { from: reads === 'all' ? 0 : named, count },
      { ...settings, hidden, seed: settings.seed + at },
    ),
  )
}

/** Returns the logits of all pieces of some texts, and the index of the highest one of each text. */
export function score(store, networks, texts) {
  const logits = logitsOf(store, networks, texts)
  return texts.map(({ first, last }) => highest(logits, first, last))
}

/** Returns the logits of all pieces; only those of some texts are computed. */
export function logitsOf(store, networks, texts) {
  const logits = new Float32Array(store.pieces.length / 5)
  for (const network of networks) scoreNetwork(store, network, texts, logits)
  return logits
}

function highest(logits, first, last) {
  let best = first
  for (let piece = first + 1; piece < last; piece++) if (logits[piece] > logits[best]) best = piece
  return { piece: best, logit: first < last ? logits[best] : -50 }
}

function trainNetwork(store, examples, { from, count }, settings) {
  const { seed, hidden, epochs, rate, dropout, balance } = settings
  const random = randomOf(seed)
  const network = emptyNetwork(from, count - from, hidden, random)
  const sample = sampleOf(store, network)
  const weights = weightsOf(examples, balance)
  const order = Int32Array.from(examples, (_, at) => at)
  const best = Int32Array.from(examples, ({ last }) => last - 1)
  const sums = {}
  for (let epoch = 0; epoch < epochs; epoch++) {
    if (epoch % 2 === 1) {
      const logits = logitsOf(store, [network], examples)
      for (const [at, { first, last }] of examples.entries()) best[at] = highest(logits, first, last).piece
    }
    shuffle(order, random)
    // The last epochs take smaller steps.
    const pace = rate * (epoch < epochs - 2 ? 1 : 0.5)
    for (const at of order) {
      const { first, last, label, isInside } = examples[at]
      if (first >= last) continue
      // The piece with the highest logit decides about a text. The whole text of an attack, and another piece of a
      // harmless text, keep the network right about the rest. Most of a text around an attack is harmless, so only the
      // piece with the highest logit teaches there.
      const other = label === 0 ? first + Math.floor(random() * (last - first)) : isInside ? best[at] : last - 1
      const chosen = best[at] === other ? [other] : [best[at], other]
      for (const piece of chosen) {
        sample.read(piece, dropout, random)
        sample.learn(label, weights[at] / chosen.length, pace)
      }
    }
    if (epoch >= epochs - AVERAGED_EPOCHS) addTo(sums, network)
  }
  for (const name of AVERAGED) network[name] = sums[name].map((sum) => sum / Math.min(AVERAGED_EPOCHS, epochs))
  return network
}

/** The weights after each of the last epochs are averaged, because the last rows of an epoch would count too much. */
const AVERAGED_EPOCHS = 2
const AVERAGED = ['table', 'bias', 'hiddenBias', 'output']

function addTo(sums, network) {
  for (const name of AVERAGED) {
    sums[name] ??= new Float32Array(network[name].length)
    for (let at = 0; at < sums[name].length; at++) sums[name][at] += network[name][at]
  }
}

function emptyNetwork(from, features, hidden, random) {
  const row = hidden + 1
  const table = new Float32Array(features * row)
  for (let at = 0; at < table.length; at++) table[at] = at % row === 0 ? 0 : (random() - 0.5) * 0.3
  return {
    from,
    hidden,
    table,
    // Sums of squared gradients (AdaGrad). These sums give rare features larger steps.
    squares: new Float32Array(features * row).fill(1e-4),
    bias: new Float32Array(1),
    biasSquares: new Float32Array(1).fill(1e-4),
    hiddenBias: new Float32Array(hidden),
    hiddenBiasSquares: new Float32Array(hidden).fill(1e-4),
    output: Float32Array.from({ length: hidden }, () => random() - 0.5),
    outputSquares: new Float32Array(hidden).fill(1e-4),
  }
}

/** Returns the weight of each example: sets count by a power of their size, and both classes count the same. */
function weightsOf(examples, balance) {
  // The languages are one set, because each of them has few rows.
  const groupOf = ({ set, label }) => `${set.replace(/^own-languages-.*/, 'own-languages')}:${label}`
  const sizes = new Map()
  for (const example of examples) {
    sizes.set(groupOf(example), (sizes.get(groupOf(example)) ?? 0) + (example.weight ?? 1))
  }
  const totals = [0, 0]
  for (const [group, size] of sizes) totals[Number(group.at(-1))] += size ** balance
  const weights = Float32Array.from(
    examples,
    (example) => ((example.weight ?? 1) * sizes.get(groupOf(example)) ** (balance - 1)) / totals[example.label],
  )
  const mean = weights.reduce((sum, weight) => sum + weight, 0) / weights.length
  return weights.map((weight) => Math.min(8, weight / mean))
}

function shuffle(list, random) {
  for (let last = list.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1))
    const kept = list[last]
    list[last] = list[other]
    list[other] = kept
  }
}

/** Reads the features of one piece at a time, and learns from them. */
function sampleOf(store, network) {
  const { groups, valueInGroup } = store
  const { from, hidden, table, squares, bias, biasSquares, hiddenBias, hiddenBiasSquares, output, outputSquares } =
    network
  const row = hidden + 1
  const indices = new Int32Array(100_000)
  const values = new Float32Array(100_000)
  const active = new Float32Array(row)
  const back = new Float32Array(row)
  let used = 0
  const width = groups.length
  const take = (index, value) => {
    if (used < indices.length) {
      indices[used] = (index - from) * row
      values[used++] = value
    }
  }
  return {
    read(piece, dropout, random) {
      const at = piece * 5
      const { list } = store.pieces
      const scale = 1 / (1 - dropout)
      used = 0
      if (from === 0) {
        for (let group = 0; group < width; group++) {
          let count = 0
          for (let cell = list[at] + group; cell < list[at + 1]; cell += width) {
            count += store.cells.list[cell + 1] - store.cells.list[cell]
          }
          const value = valueInGroup(groups[group].weight, count) * scale
          for (let cell = list[at] + group; cell < list[at + 1]; cell += width) {
            for (let word = store.cells.list[cell]; word < store.cells.list[cell + 1]; word++) {
              if (random() >= dropout) take(store.words.list[word], value)
            }
          }
        }
      }
      for (let named = list[at + 2]; named < list[at + 3]; named++) {
        if (random() >= dropout) take(store.namedIndices.list[named], store.namedValues.list[named] * scale)
      }
    },
    learn(label, weight, rate) {
      let logit = bias[0]
      active[0] = 0
      for (let unit = 0; unit < hidden; unit++) active[unit + 1] = hiddenBias[unit]
      for (let at = 0; at < used; at++) {
        const start = indices[at]
        const value = values[at]
        for (let column = 0; column < row; column++) active[column] += table[start + column] * value
      }
      logit += active[0]
      for (let unit = 0; unit < hidden; unit++) {
        if (active[unit + 1] < 0) active[unit + 1] = 0
        logit += output[unit] * active[unit + 1]
      }
      const error = (1 / (1 + Math.exp(-logit)) - label) * weight
      if (Math.abs(error) < 1e-3) return
      back[0] = 2 * error
      for (let unit = 0; unit < hidden; unit++) {
        back[unit + 1] = active[unit + 1] > 0 ? error * output[unit] : 0
        step(hiddenBias, hiddenBiasSquares, unit, back[unit + 1], rate)
        step(output, outputSquares, unit, error * active[unit + 1], rate)
      }
      for (let at = 0; at < used; at++) {
        const start = indices[at]
        const value = values[at]
        const direct = error * value
        if (direct !== 0) {
          squares[start] += direct * direct
          table[start] -= (2 * rate * direct) / Math.sqrt(squares[start])
        }
        for (let column = 1; column < row; column++) {
          const gradient = back[column] * value
          if (gradient === 0) continue
          const place = start + column
          squares[place] += gradient * gradient
          table[place] -= (rate * gradient) / Math.sqrt(squares[place])
        }
      }
      step(bias, biasSquares, 0, error, rate)
    },
  }
}

function step(weights, squares, at, gradient, rate) {
  if (gradient === 0) return
  squares[at] += gradient * gradient
  weights[at] -= (rate * gradient) / Math.sqrt(squares[at])
}

/** Adds the logits of a network to the logits of all pieces of some texts. */
function scoreNetwork(store, { from, hidden, table, bias, hiddenBias, output }, texts, logits) {
  const { groups, valueInGroup } = store
  const width = groups.length
  const row = hidden + 1
  const pieces = store.pieces.list
  const cells = store.cells.list
  const words = store.words.list
  let sums = new Float32Array(1 << 16)
  const total = new Float32Array(row)
  for (const { first, last } of texts) {
    if (first >= last) continue
    let start = pieces[first * 5]
    let end = start
    for (let piece = first; piece < last; piece++) {
      start = Math.min(start, pieces[piece * 5])
      end = Math.max(end, pieces[piece * 5 + 1])
    }
    if (from === 0) {
      const needed = (end - start + width) * row
      if (needed > sums.length) sums = new Float32Array(2 * needed)
      sums.fill(0, 0, width * row)
      for (let cell = start; cell < end; cell++) {
        const before = (cell - start) * row
        const after = before + width * row
        for (let column = 0; column < row; column++) sums[after + column] = sums[before + column]
        for (let word = cells[cell]; word < cells[cell + 1]; word++) {
          const at = words[word] * row
          for (let column = 0; column < row; column++) sums[after + column] += table[at + column]
        }
      }
    }
    for (let piece = first; piece < last; piece++) {
      const at = piece * 5
      total.fill(0)
      if (from === 0) {
        for (let group = 0; group < width; group++) {
          let count = 0
          for (let cell = pieces[at] + group; cell < pieces[at + 1]; cell += width)
            count += cells[cell + 1] - cells[cell]
          const value = valueInGroup(groups[group].weight, count)
          const low = (pieces[at] + group - start) * row
          const high = (pieces[at + 1] + group - start) * row
          for (let column = 0; column < row; column++)
            total[column] += (sums[high + column] - sums[low + column]) * value
        }
      }
      for (let named = pieces[at + 2]; named < pieces[at + 3]; named++) {
        const place = (store.namedIndices.list[named] - from) * row
        const value = store.namedValues.list[named]
        for (let column = 0; column < row; column++) total[column] += table[place + column] * value
      }
      let logit = bias[0] + total[0]
      for (let unit = 0; unit < hidden; unit++) {
        const value = total[unit + 1] + hiddenBias[unit]
        if (value > 0) logit += output[unit] * value
      }
      logits[piece] += logit
    }
  }
}

/** Converts the networks to the shipped form: one signed byte per weight, compressed. */
export const quantised = (networks) => networks.map(quantisedNetwork)

function quantisedNetwork({ from, hidden, bias, table, hiddenBias, output }) {
  const row = hidden + 1
  const features = table.length / row
  // Clips the few largest weights of each column. A scale that fits them would reduce the precision of small weights.
  const scales = Array.from({ length: row }, (_, column) => {
    const sizes = new Float32Array(features)
    for (let at = 0; at < features; at++) sizes[at] = Math.abs(table[at * row + column])
    sizes.sort()
    return sizes[Math.floor(sizes.length * 0.9995)] / 127 || 1
  })
  const bytes = new Int8Array(table.length)
  for (let at = 0; at < table.length; at++) {
    bytes[at] = Math.max(-127, Math.min(127, Math.round(table[at] / scales[at % row])))
  }
  const numbers = (list) => Array.from(list, (value) => Number(value.toPrecision(7)))
  return {
    from,
    hidden,
    bias: bias[0],
    hiddenBias: numbers(hiddenBias),
    output: numbers(output),
    scales: numbers(scales),
    bytes: brotliCompressSync(bytes).toString('base64'),
  }
}
