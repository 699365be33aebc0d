import { estimateTokenCount } from 'tokenx'

/** The maximum number of characters counted in one step. A step of this size takes at most a few milliseconds. */
const PIECE_CHARS = 8_192
/**
 * Matches each blank after which a text may be cut. Words are counted separately, so cutting between words does not
 * change the count.
 */
const BLANK = /\s(?=\S)/g
/**
 * The number of characters before the end of a piece in which the code looks for a blank. If there is no blank, the
 * piece is cut at its end.
 */
const LOOK_BACK_CHARS = 256

/**
 * Estimates how many tokens a model would count in `text`. The result is 0 only for the empty text. The time is linear
 * in the length of the text.
 */
export function countTokens(text: string): number {
  return text === '' ? 0 : Math.max(1, estimateTokenCount(text))
}

/** Like `countTokens`, but yields between the pieces of a long text, so that other work can run. */
export function* countingTokens(text: string): Generator<void, number> {
  if (text.length <= PIECE_CHARS) return countTokens(text)
  let tokens = 0
  for (let at = 0; at < text.length; ) {
    const end = pieceEnd(text, at)
    tokens += countTokens(text.slice(at, end))
    at = end
    yield
  }
  return tokens
}

function pieceEnd(text: string, at: number): number {
  const end = at + PIECE_CHARS
  if (end >= text.length) return text.length
  const from = end - LOOK_BACK_CHARS
  const last = Array.from(text.slice(from, end + 1).matchAll(BLANK)).at(-1)
  return last === undefined ? end : from + last.index + 1
}
