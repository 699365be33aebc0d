import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Tokenizer } from '@huggingface/tokenizers'
import type { InferenceSession, Tensor } from 'onnxruntime-node'
import type { ModelSettings } from './messages.ts'

/** Returns the probability of an attack in each text, 0 to 1. */
export type Scorer = (texts: readonly string[]) => Promise<number[]>

type Json = Record<string, unknown>

/** Labels that mean a harmless text. `LABEL_0` is the usual name of the first label if the model has no names. */
const HARMLESS_LABEL = /^(?:benign|safe|negative|legit(?:imate)?|harmless|normal|ok|no|none|0|label_0|not[_ -].*)$/i
/** The number of the most similar examples of each class that an embedding model uses. */
const NEAREST = 3
/** How strongly the difference between two similarities shifts the probability. */
const SHARPNESS = 20

/**
 * Loads a text classifier or an embedding model in the ONNX format. A classifier returns `logits`. An embedding model
 * returns one vector per text or per token, and needs examples: a text is as dangerous as the examples that are most
 * similar to it.
 * @throws Error that names the missing package or file, or what the model lacks
 */
export async function loadScorer(settings: ModelSettings): Promise<Scorer> {
  const { InferenceSession, Tensor } = await loadRuntime()
  const { folder, file, threads } = settings
  const read = (name: string): Json => JSON.parse(readFileSync(join(folder, name), 'utf8')) as Json
  const tokenizer = new Tokenizer(read('tokenizer.json'), optional(() => read('tokenizer_config.json')) ?? {})
  const config = optional(() => read('config.json')) ?? {}
  const session = await InferenceSession.create(join(folder, file), {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
  })
  const encode = encoderOf(tokenizer, settings.maxTokens)
  const run = (texts: readonly string[]) => {
    const rows = texts.map(encode)
    return runModel(session, Tensor, rows, typeof config.pad_token_id === 'number' ? config.pad_token_id : 0)
  }
  if (settings.examples === undefined) return classifierOf(run, config, settings)
  return neighboursOf(run, settings.examples)
}

async function loadRuntime(): Promise<typeof import('onnxruntime-node')> {
  try {
    const runtime = await import('onnxruntime-node')
    return 'InferenceSession' in runtime ? runtime : (runtime as { default: typeof import('onnxruntime-node') }).default
  } catch (cause) {
    throw new Error('the package onnxruntime-node is not installed; install it beside aigw', { cause })
  }
}

function optional<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

/** Returns the ids of a text. A text that is longer than the model reads loses its middle. */
function encoderOf(tokenizer: Tokenizer, maxTokens: number): (text: string) => number[] {
  return (text) => {
    const ids = Array.from(tokenizer.encode(text).ids, Number)
    if (ids.length <= maxTokens) return ids
    const half = maxTokens >> 1
    return [...ids.slice(0, half), ...ids.slice(half - maxTokens)]
  }
}

type Output = { data: ArrayLike<number>; dims: readonly number[]; mask: readonly number[] }

/** Runs the model once for all rows. Shorter rows are padded. */
async function runModel(
  session: InferenceSession,
  TensorOf: typeof Tensor,
  rows: readonly number[][],
  padding: number,
): Promise<Output> {
  const width = Math.max(1, ...rows.map(({ length }) => length))
  const ids = new BigInt64Array(rows.length * width).fill(BigInt(padding))
  const mask = new BigInt64Array(rows.length * width)
  for (const [row, tokens] of rows.entries()) {
    for (const [at, id] of tokens.entries()) {
      ids[row * width + at] = BigInt(id)
      mask[row * width + at] = 1n
    }
  }
  const shape = [rows.length, width]
  const known: Record<string, BigInt64Array> = {
    input_ids: ids,
    attention_mask: mask,
    token_type_ids: new BigInt64Array(ids.length),
  }
  const feeds: Record<string, Tensor> = {}
  for (const name of session.inputNames) {
    const values = known[name]
    if (values === undefined) throw new Error(`the model needs the input "${name}", which is not supported`)
    feeds[name] = new TensorOf('int64', values, shape)
  }
  const results = await session.run(feeds)
  const result = results.logits ?? results[session.outputNames[0]!]!
  return { data: result.data as ArrayLike<number>, dims: result.dims, mask: Array.from(mask, Number) }
}

type Run = (texts: readonly string[]) => Promise<Output>

function classifierOf(run: Run, config: Json, { attackLabels }: ModelSettings): Scorer {
  const labels = Object.values((config.id2label ?? {}) as Record<string, string>)
  const unknown = attackLabels?.find((label) => !labels.includes(label))
  if (unknown !== undefined) throw new Error(`the model has no label "${unknown}"; its labels are ${labels.join(', ')}`)
  const isAttack = (label: string) => (attackLabels ? attackLabels.includes(label) : !HARMLESS_LABEL.test(label))
  return async (texts) => {
    const { data, dims } = await run(texts)
    const count = dims[1]
    if (dims.length !== 2 || count === undefined)
      throw new Error('the model returns no logits; an embedding model needs `examples`')
    if (count !== 1 && count !== labels.length)
      throw new Error(`the model returns ${count} logits, and config.json names ${labels.length} labels`)
    return texts.map((_, row) => {
      const logits = Array.from({ length: count }, (_, column) => data[row * count + column]!)
      if (count === 1) return 1 / (1 + Math.exp(-logits[0]!))
      const top = Math.max(...logits)
      const weights = logits.map((logit) => Math.exp(logit - top))
      const total = weights.reduce((sum, weight) => sum + weight, 0)
      return weights.reduce((sum, weight, at) => (isAttack(labels[at]!) ? sum + weight : sum), 0) / total
    })
  }
}

const EXAMPLES_AT_ONCE = 16

async function neighboursOf(run: Run, file: string): Promise<Scorer> {
  const embed = async (texts: readonly string[]) => vectorsOf(await run(texts))
  const classes: [Float64Array[], Float64Array[]] = [[], []]
  const examples = readExamples(file)
  for (let at = 0; at < examples.length; at += EXAMPLES_AT_ONCE) {
    const some = examples.slice(at, at + EXAMPLES_AT_ONCE)
    for (const [row, vector] of (await embed(some.map(({ text }) => text))).entries())
      classes[some[row]!.label].push(vector)
  }
  if (classes.some(({ length }) => length === 0))
    throw new Error(`${file}: needs examples of both classes, label 1 for attacks and 0 for harmless texts`)
  return async (texts) =>
    (await embed(texts)).map((vector) => {
      const [harmless, attack] = classes.map((vectors) => nearness(vector, vectors)) as [number, number]
      return 1 / (1 + Math.exp(SHARPNESS * (harmless - attack)))
    })
}

function readExamples(file: string): { text: string; label: 0 | 1 }[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line, at) => {
      const row: unknown = JSON.parse(line)
      if (isExample(row)) return row
      throw new Error(`${file}:${at + 1}: is not of the form {"text": "…", "label": 0 or 1}`)
    })
}

const isExample = (row: unknown): row is { text: string; label: 0 | 1 } =>
  typeof row === 'object' &&
  row !== null &&
  'text' in row &&
  typeof row.text === 'string' &&
  'label' in row &&
  (row.label === 0 || row.label === 1)

/** Returns one vector of length 1 per text. The vectors of tokens are averaged. */
function vectorsOf({ data, dims, mask }: Output): Float64Array[] {
  const [texts, tokens, size] = dims.length === 3 ? (dims as [number, number, number]) : [dims[0]!, 1, dims[1]!]
  return Array.from({ length: texts }, (_, text) => {
    const vector = new Float64Array(size)
    for (let token = 0; token < tokens; token += 1) {
      if (tokens > 1 && mask[text * tokens + token] === 0) continue
      for (let at = 0; at < size; at += 1) vector[at]! += data[(text * tokens + token) * size + at]!
    }
    const length = Math.hypot(...vector) || 1
    return vector.map((value) => value / length)
  })
}

/** The mean cosine similarity to the NEAREST most similar vectors. */
function nearness(vector: Float64Array, others: readonly Float64Array[]): number {
  const nearest = others
    .map((other) => other.reduce((sum, value, at) => sum + value * vector[at]!, 0))
    .sort((one, other) => other - one)
    .slice(0, NEAREST)
  return nearest.reduce((sum, value) => sum + value, 0) / nearest.length
}
