import { characterBorder } from './words.ts'

const sentenceSegmenter = new Intl.Segmenter('und', { granularity: 'sentence' })
/** Each step of Intl.Segmenter is linear in its input, so it gets short pieces. */
const WINDOW_CHARS = 1_000
const ONE_SENTENCE = /^[^.!?\u0080-\uffff]*$/

/**
 * The end of each sentence between `start` and `end`; the last one is at `end`. A line break inside is a space. Each is
 * at most 1,000 characters: longer text is cut at a space, or else between characters. Linear in the length.
 */
export function* sentenceEnds(text: string, start: number, end: number): Generator<number> {
  while (start < end) {
    const windowEnd = Math.min(end, characterBorder(text, start + WINDOW_CHARS))
    const window = text.slice(start, windowEnd).replaceAll('\n', ' ')
    // Most lines of lists, tables and code are this simple, and starting the segmenter takes microseconds.
    if (windowEnd === end && ONE_SENTENCE.test(window)) {
      yield end
      return
    }
    const ends: number[] = []
    for (const { index, segment } of sentenceSegmenter.segment(window)) ends.push(start + index + segment.length)
    // The window may have cut the last sentence, so the next window begins at its start.
    if (windowEnd < end) {
      ends.pop()
      if (ends.length === 0) ends.push(start + spaceBorder(window))
    }
    yield* ends
    start = ends.at(-1) ?? end
  }
}

/** After the last space of the second half, or the whole window. */
function spaceBorder(window: string): number {
  const space = window.lastIndexOf(' ')
  return space >= window.length / 2 ? space + 1 : window.length
}
