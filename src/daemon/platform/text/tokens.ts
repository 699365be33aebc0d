import { estimateTokenCount } from 'tokenx'

/** So much text is counted in one go: of the worst that takes a few milliseconds. */
const PIECE_CHARS = 8_192
/** A cut behind a blank changes nothing of what is counted, for a word counts by itself. */
const BLANK = /\s(?=\S)/g
/** So far before the end of a piece such a place is looked for. What has none is cut where the piece ends. */
const LOOK_BACK_CHARS = 256

/** About how many tokens a model would count in `text`; 0 only for the empty text. Linear in its length. */
export function countTokens(text: string): number {
  return text === '' ? 0 : Math.max(1, estimateTokenCount(text))
}

/** The same for a text of any length: stops between the pieces of a long one, so that others can have a turn. */
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
