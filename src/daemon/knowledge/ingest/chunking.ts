import { outlineOf, type Section, type TextFormat } from './markdown.ts'
import { markdownSpans, proseSpans, type Span } from './spans.ts'

/**
 * A part of a document that is retrieved and quoted independently. `headings` contains the headings above the passage,
 * joined by " > ". `page` is the page on which the passage begins, if the document has pages.
 */
export type Passage = { position: number; headings: string; body: string; page?: number | null }
type ChunkedText = { title: string; passages: Iterable<Passage> }

/**
 * The target length of a passage in characters. This length is enough for one thought with its reasons, and eight such
 * passages fit into a prompt.
 */
export const PASSAGE_CHARS = 1_000
/**
 * The maximum overlap of consecutive passages in characters. The overlap provides context for the first sentence of a
 * passage.
 */
export const OVERLAP_CHARS = 200

/**
 * Cuts a document into passages at the best boundary near PASSAGE_CHARS: a heading, paragraph, line or sentence. A
 * passage has at most PASSAGE_CHARS + OVERLAP_CHARS characters, plus the fences that are added if a code block is cut.
 * Passages are created lazily and in linear time, so a large document can be read in parts. Every part of the text
 * becomes part of a body or a heading, except the front matter of a Markdown file.
 */
export function chunkText(text: string, format: TextFormat): ChunkedText {
  let lines = text.replace(/^\uFEFF/, '').replace(/\r\n?/g, '\n')
  // The pattern matches a single newline, because a quantifier would overflow the stack on millions of empty lines.
  if (lines.includes('\n\n\n\n')) lines = lines.replace(/(?<=\n\n\n)\n/g, '')
  const { title, sections } = outlineOf(lines, format)
  const spansOf = format === 'markdown' ? markdownSpans : proseSpans
  return { title, passages: passagesOf(lines, sections, spansOf) }
}

type SpansOf = (text: string, section: Section) => Iterable<Span>

function* passagesOf(text: string, sections: Iterable<Section>, spansOf: SpansOf): Generator<Passage> {
  let position = 0
  for (const section of sections) {
    const headings = section.headings.join(' > ')
    for (const spans of fill(text, spansOf(text, section))) {
      const body = bodyOf(text, spans)
      if (body !== '') yield { position: position++, headings, body }
    }
  }
}

/** Collects spans into passages. */
function* fill(text: string, source: Iterable<Span>): Generator<Span[]> {
  let spans: Span[] = []
  let fresh = 0 // index of the first span that is not in a passage yet
  function take(count: number): Span[] {
    const taken = spans.slice(0, count)
    const repeated = mayRepeat(text, taken.at(-1)) ? 1 : 0
    spans = spans.slice(count - repeated)
    fresh = repeated
    return taken
  }
  for (const span of source) {
    while (spans.length > fresh && span.end - (spans[fresh]?.start ?? 0) > PASSAGE_CHARS)
      yield take(bestCut(spans, fresh))
    spans.push(span)
  }
  if (spans.length > fresh) yield take(spans.length)
}

/** Whether the next passage may repeat this span. Code blocks and empty lines are never repeated. */
function mayRepeat(text: string, span: Span | undefined): boolean {
  if (span === undefined || span.code || span.end - span.start > OVERLAP_CHARS) return false
  return text.slice(span.start, span.end).trim() !== ''
}

/**
 * Returns the number of spans for the passage. The passage ends at the last paragraph end in its second half. If this
 * half contains no paragraph end, the passage ends at the last line end in this half. If the half contains no line end
 * either, the passage contains all spans.
 */
function bestCut(spans: readonly Span[], fresh: number): number {
  const half = (spans[fresh]?.start ?? 0) + PASSAGE_CHARS / 2
  for (const border of ['paragraph', 'line'] as const) {
    for (let count = spans.length; count > fresh; count--) {
      const span = spans[count - 1]
      if (span === undefined || span.end < half) break
      if (span.border === border) return count
    }
  }
  return spans.length
}

/** Returns the source text of the spans. Adds code fences at each place where a code block was cut. */
function bodyOf(text: string, spans: readonly Span[]): string {
  const first = spans[0]
  const last = spans.at(-1)
  const body = text.slice(first?.start, last?.end).trimEnd()
  const opened = first?.code && !first.code.first ? `${first.code.fence}\n${body}` : body.trimStart()
  return last?.code && !last.code.last ? `${opened}\n${last.code.fence}` : opened
}
