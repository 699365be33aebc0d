import { characterBorder } from './words.ts'

const sentenceSegmenter = new Intl.Segmenter('und', { granularity: 'sentence' })
/** One step of Intl.Segmenter costs as much as the text it was given is long, so it is given little at a time. */
const WINDOW_CHARS = 1_000
const ONE_SENTENCE = /^[^.!?\u0080-\uffff]*$/

/**
 * Where each sentence between `start` and `end` ends, the last one at `end`. A line break inside is a space. Nothing is
 * longer than 1,000 characters: what has no sentence border in that room is cut at a space, or else between characters.
 * Linear in the length.
 */
export function* sentenceEnds(text: string, start: number, end: number): Generator<number> {
  while (start < end) {
    const windowEnd = Math.min(end, characterBorder(text, start + WINDOW_CHARS))
    const window = text.slice(start, windowEnd).replaceAll('\n', ' ')
    // Most lines of lists, tables and code are this simple, and the segmenter takes microseconds to begin.
    if (windowEnd === end && ONE_SENTENCE.test(window)) {
      yield end
      return
    }
    const ends: number[] = []
    for (const { index, segment } of sentenceSegmenter.segment(window)) ends.push(start + index + segment.length)
    // What the window cut off may go on behind it, so it is looked at again from its own start.
    if (windowEnd < end) {
      ends.pop()
      if (ends.length === 0) ends.push(start + spaceBorder(window))
    }
    yield* ends
    start = ends.at(-1) ?? end
  }
}

/** Behind the last space of the second half, or all of it. */
function spaceBorder(window: string): number {
  const space = window.lastIndexOf(' ')
  return space >= window.length / 2 ? space + 1 : window.length
}
