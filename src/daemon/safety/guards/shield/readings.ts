// All readings of a text: of its blocks, and of the texts that are hidden in them.
import { isAscii } from '../view/characters.ts'
import { type Decoded, decodeAll, type Encoding } from './decoders.ts'
import { type Reading, readText } from './reading.ts'
import { isSign } from './words.ts'

/** The size of the blocks of a long text, in code units. Each block overlaps the end of the previous block. */
const BLOCK_CHARS = 16_384
const OVERLAP_CHARS = 1_536
/** The maximum nesting depth of encoded text. */
const DEPTH = 2
/** The maximum number of code units by which the decoded text may be longer than the scanned text. */
const DECODED_CHARS = 16_384
/**
 * The minimum number of words in a hidden request. A shorter decoded text is not a request: for example, `admin:secret`
 * in a header.
 */
const LEAST_HIDDEN_WORDS = 4

/** A reading of a block, or of a text that an encoding hides in a block. */
export type PartReading = { reading: Reading; hiddenBy: Encoding | undefined; block: Block | undefined }

/** A block of the scanned text. `start`: its offset. */
export type Block = { text: string; start: number }

/**
 * Yields each part of a text. Takes time linear in the length of the text, and at most a few milliseconds per part.
 * @param decodes whether hidden texts are also read
 */
export function* readingsOf(text: string, decodes: boolean): Generator<PartReading | undefined> {
  const budget = { chars: text.length + DECODED_CHARS }
  for (const block of blocksOf(text)) yield* readBlock(block.text, block, undefined, decodes ? DEPTH : 0, budget)
}

function* readBlock(
  text: string,
  block: Block | undefined,
  hiddenBy: Encoding | undefined,
  depth: number,
  budget: { chars: number },
): Generator<PartReading | undefined> {
  const reading = readText(text)
  if (hiddenBy === undefined || wordsIn(reading) >= LEAST_HIDDEN_WORDS) yield { reading, hiddenBy, block }
  if (depth === 0) return
  const hidden = hiddenIn(reading, text)
  yield undefined
  for (const { encoding, text } of hidden) {
    budget.chars -= text.length
    if (budget.chars < 0) return
    yield* readBlock(text, undefined, encoding, depth - 1, budget)
  }
}

const wordsIn = ({ words }: Reading): number => words.symbols.filter((symbol) => !isSign(symbol)).length

function hiddenIn({ clean, words }: Reading, written: string): Decoded[] {
  const decoded = decodeAll(clean.text, { words, written: isAscii(written) ? clean.text : written })
  return clean.tags === '' ? decoded : [{ encoding: 'tags', text: clean.tags }, ...decoded]
}

function* blocksOf(text: string): Generator<Block> {
  for (let start = 0; start < text.length; ) {
    const end = start + BLOCK_CHARS >= text.length ? text.length : borderBefore(text, start + BLOCK_CHARS)
    yield { text: text.slice(start, end), start }
    if (end >= text.length) return
    start = borderBefore(text, end - OVERLAP_CHARS)
  }
}

const BORDER_SEARCH_CHARS = 512

/** Returns a word boundary shortly before `index`, or a character boundary if no word boundary is near. */
function borderBefore(text: string, index: number): number {
  for (let at = index; at > index - BORDER_SEARCH_CHARS; at--) {
    const unit = text.charCodeAt(at)
    if (unit === 32 || unit === 10) return at
  }
  const unit = text.charCodeAt(index)
  return unit >= 0xdc00 && unit <= 0xdfff ? index - 1 : index
}
