import { characterBorder } from './words.ts'

const sentenceSegmenter = new Intl.Segmenter('und', { granularity: 'sentence' })
/**
 * The time of each step of Intl.Segmenter is linear in the length of its input, so the input is split into short
 * windows.
 */
const WINDOW_CHARS = 1_000
const ONE_SENTENCE = /^[^.!?\u0080-\uffff]*$/

/**
 * Yields the end position of each sentence between `start` and `end`. The last position is `end`. A line break inside a
 * sentence counts as a space. A sentence has at most 1,000 characters: longer text is cut at a space, or between
 * characters if it contains no space. The time is linear in the length of the text.
 */
export function* sentenceEnds(text: string, start: number, end: number): Generator<number> {
  while (start < end) {
    const windowEnd = Math.min(end, characterBorder(text, start + WINDOW_CHARS))
    const window = text.slice(start, windowEnd).replaceAll('\n', ' ')
    // Most lines of lists, tables and code are one simple sentence. For such lines, the segmenter is skipped, because
    // its start takes microseconds.
    if (windowEnd === end && ONE_SENTENCE.test(window)) {
      yield end
      return
    }
    const ends: number[] = []
    for (const { index, segment } of sentenceSegmenter.segment(window)) ends.push(start + index + segment.length)
    // The last sentence of a window may be incomplete, so the next window begins at the start of that sentence.
    if (windowEnd < end) {
      ends.pop()
      if (ends.length === 0) ends.push(start + spaceBorder(window))
    }
    yield* ends
    start = ends.at(-1) ?? end
  }
}

/**
 * Returns the position after the last space in the second half of the window. Returns the length of the window if there
 * is no such space.
 */
function spaceBorder(window: string): number {
  const space = window.lastIndexOf(' ')
  return space >= window.length / 2 ? space + 1 : window.length
}
