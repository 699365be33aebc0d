import { endsFence, fenceOf } from '../../platform/text/code-fence.ts'
import { sentenceEnds } from '../../platform/text/sentences.ts'
import { linesOf, type Section } from './markdown.ts'

/** The maximum length of a span, in characters. */
const SPAN_CHARS = 1_000
const FENCE_CHARS = 20

/** A range of text that is never cut further. `border` states at which kind of boundary the range ends. */
export type Span = { start: number; end: number; border: 'sentence' | 'line' | 'paragraph'; code?: CodePart }
/**
 * The part of a code block in a span. `fence` is the block's marker. `first` and `last` state whether the span contains
 * the block's first and last line.
 */
type CodePart = { fence: string; first: boolean; last: boolean }
type Range = { start: number; end: number }

/** Matches lines that the next line never continues: list items, table rows, quotes, indented code. */
const OWN_LINE = /^(?:\s*(?:[-*+]|\d{1,9}[.)])\s|\s*[|>]|\s{4})/

/** Returns the spans of a Markdown section, without gaps. */
export function* markdownSpans(text: string, { start, end }: Section): Generator<Span> {
  let fence: string | undefined
  let open = start // start of the current prose or code
  for (const line of linesOf(text, start, end)) {
    if (fence === undefined) {
      fence = fenceOf(line.content)
      if (fence === undefined) continue
      yield* proseSpans(text, { start: open, end: line.start })
      open = line.start
    } else if (endsFence(line.content, fence)) {
      yield* codeSpans(text, { start: open, end: line.end }, fence)
      open = line.end
      fence = undefined
    }
  }
  yield* fence === undefined ? proseSpans(text, { start: open, end }) : codeSpans(text, { start: open, end }, fence)
}

/** Returns the spans of a text without code, without gaps. */
export function* proseSpans(text: string, { start, end }: Range): Generator<Span> {
  let open = start
  for (const line of linesOf(text, start, end)) {
    if (line.content === '') {
      // A second empty line is added to the next span, because a span must not consist of an empty line alone.
      if (open === line.start) continue
      yield* sentenceSpans(text, open, line.end, 'paragraph')
      open = line.end
    } else if (OWN_LINE.test(line.content)) {
      yield* sentenceSpans(text, open, line.start, 'line')
      open = line.start
    }
  }
  yield* sentenceSpans(text, open, end, 'paragraph')
}

function* sentenceSpans(text: string, start: number, end: number, border: Span['border']): Generator<Span> {
  for (const sentenceEnd of sentenceEnds(text, start, end)) {
    yield { start, end: sentenceEnd, border: sentenceEnd === end ? border : 'sentence' }
    start = sentenceEnd
  }
}

/** A code block is one span if it fits. Otherwise the code block is cut between lines. */
function* codeSpans(text: string, { start, end }: Range, mark: string): Generator<Span> {
  const fence = mark.slice(0, FENCE_CHARS)
  if (end - start <= SPAN_CHARS) {
    yield { start, end, border: 'paragraph', code: { fence, first: true, last: true } }
    return
  }
  for (const line of linesOf(text, start, end)) {
    for (const span of codeLine(text, line)) {
      const last = span.end === end
      const code = { fence, first: span.start === start, last }
      yield { ...span, border: last ? 'paragraph' : 'line', code }
    }
  }
}

function* codeLine(text: string, { start, end }: Range): Generator<Range> {
  if (end - start <= SPAN_CHARS) yield { start, end }
  else yield* sentenceSpans(text, start, end, 'line')
}
