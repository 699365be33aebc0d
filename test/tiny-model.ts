// Builds a small text classifier in the ONNX format and its tokenizer. Each word of its vocabulary has a weight, and the
// logits of a text are the sums of the weights of its words.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const UNKNOWN = '[UNK]'
const PADDING = '[PAD]'

/**
 * Writes a model into `folder`.
 * @param weights for each word, its weight for each label
 * @param kind `labels`: the model returns logits. `embedding`: it returns one vector for each token.
 */
export function writeTinyModel(
  folder: string,
  weights: Readonly<Record<string, readonly number[]>>,
  {
    labels = ['BENIGN', 'INJECTION'],
    kind = 'labels',
  }: { labels?: readonly string[]; kind?: 'labels' | 'embedding' } = {},
): void {
  const words = [PADDING, UNKNOWN, ...Object.keys(weights)]
  const width = Object.values(weights)[0]!.length
  const zeros = Array.from({ length: width }, () => 0)
  const table = [zeros, zeros, ...Object.values(weights)]
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'model.onnx'), kind === 'labels' ? classifier(table) : encoder(table))
  const vocab = Object.fromEntries(words.map((word, id) => [word, id]))
  const special = [PADDING, UNKNOWN].map((content, id) => ({
    id,
    content,
    special: true,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
  }))
  const tokenizer = {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: special,
    normalizer: { type: 'Lowercase' },
    pre_tokenizer: { type: 'Whitespace' },
    post_processor: null,
    decoder: null,
    model: { type: 'WordLevel', vocab, unk_token: UNKNOWN },
  }
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer))
  writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify({ unk_token: UNKNOWN, pad_token: PADDING }))
  writeFileSync(
    join(folder, 'config.json'),
    JSON.stringify(kind === 'labels' ? { id2label: Object.fromEntries(labels.entries()), pad_token_id: 0 } : {}),
  )
}

/** logits[text][label] = the sum of table[id][label] over the ids of the text. */
const classifier = (table: readonly (readonly number[])[]) =>
  model(
    table,
    [node('Gather', ['table', 'input_ids'], ['vectors']), node('ReduceSum', ['vectors'], ['logits'], SUM_OF_WORDS)],
    {
      name: 'logits',
      shape: ['texts', table[0]!.length],
    },
  )

const encoder = (table: readonly (readonly number[])[]) =>
  model(table, [node('Gather', ['table', 'input_ids'], ['last_hidden_state'])], {
    name: 'last_hidden_state',
    shape: ['texts', 'words', table[0]!.length],
  })

// The following functions write the messages of onnx.proto in the wire format of Protocol Buffers.

const varint = (value: number): number[] =>
  value < 128 ? [value] : [(value & 127) | 128, ...varint(Math.floor(value / 128))]
const number = (field: number, value: number) => Buffer.from([...varint(field << 3), ...varint(value)])
const bytes = (field: number, value: string | Uint8Array) => {
  const content = Buffer.from(value as string)
  return Buffer.concat([Buffer.from([...varint((field << 3) | 2), ...varint(content.length)]), content])
}
const message = (...parts: Buffer[]) => Buffer.concat(parts)

/** The attributes `axes: [1]` and `keepdims: 0`. */
const SUM_OF_WORDS = [
  message(bytes(1, 'axes'), number(8, 1), number(20, 7)),
  message(bytes(1, 'keepdims'), number(3, 0), number(20, 2)),
]
const node = (operator: string, inputs: string[], outputs: string[], attributes: Buffer[] = []) =>
  message(
    ...inputs.map((name) => bytes(1, name)),
    ...outputs.map((name) => bytes(2, name)),
    bytes(4, operator),
    ...attributes.map((attribute) => bytes(5, attribute)),
  )
const [FLOAT, INT64] = [1, 7]
const value = (name: string, type: number, shape: readonly (string | number)[]) => {
  const dimensions = shape.map((size) => bytes(1, typeof size === 'string' ? bytes(2, size) : number(1, size)))
  return message(bytes(1, name), bytes(2, bytes(1, message(number(1, type), bytes(2, message(...dimensions))))))
}

function model(
  table: readonly (readonly number[])[],
  nodes: Buffer[],
  output: { name: string; shape: readonly (string | number)[] },
): Buffer {
  const raw = Buffer.from(Float32Array.from(table.flat()).buffer)
  const tensor = message(
    number(1, table.length),
    number(1, table[0]!.length),
    number(2, FLOAT),
    bytes(8, 'table'),
    bytes(9, raw),
  )
  const graph = message(
    ...nodes.map((one) => bytes(1, one)),
    bytes(2, 'tiny'),
    bytes(5, tensor),
    bytes(11, value('input_ids', INT64, ['texts', 'words'])),
    bytes(12, value(output.name, FLOAT, output.shape)),
  )
  const operators = message(bytes(1, ''), number(2, 11))
  return message(number(1, 7), bytes(7, graph), bytes(8, operators))
}
