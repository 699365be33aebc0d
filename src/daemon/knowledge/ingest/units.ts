import { endsFence, fenceOf } from '../../platform/text/code-fence.ts'
import { sentenceEnds } from '../../platform/text/sentences.ts'
import { linesOf, type Section } from './markdown.ts'

/** The longest unit, in characters. */
const UNIT_CHARS = 1_000
const FENCE_CHARS = 20

/** A piece of a text that is never cut again. `border`: how good a place its end is to stop. */
export type Unit = { start: number; end: number; border: 'sentence' | 'line' | 'paragraph'; code?: CodePart }
/** Of a block of code between `fence` signs: whether the unit holds its first and its last line. */
type CodePart = { fence: string; first: boolean; last: boolean }
type Range = { start: number; end: number }

/** Lines that stand for themselves and do not go on in the next: lists, tables, quotes, indented code. */
const OWN_LINE = /^(?:\s*(?:[-*+]|\d{1,9}[.)])\s|\s*[|>]|\s{4})/

/** The units of a section of Markdown, side by side from its start to its end. */
export function* markdownUnits(text: string, { start, end }: Section): Generator<Unit> {
  let fence: string | undefined
  let open = start // start of the prose or the code that is being read
  for (const line of linesOf(text, start, end)) {
    if (fence === undefined) {
      fence = fenceOf(line.content)
      if (fence === undefined) continue
      yield* proseUnits(text, { start: open, end: line.start })
      open = line.start
    } else if (endsFence(line.content, fence)) {
      yield* codeUnits(text, { start: open, end: line.end }, fence)
      open = line.end
      fence = undefined
    }
  }
  yield* fence === undefined ? proseUnits(text, { start: open, end }) : codeUnits(text, { start: open, end }, fence)
}

/** The units of a text without code, side by side from its start to its end. */
export function* proseUnits(text: string, { start, end }: Range): Generator<Unit> {
  let open = start
  for (const line of linesOf(text, start, end)) {
    if (line.content === '') {
      // A further empty line goes with what comes after it, so that no unit is empty.
      if (open === line.start) continue
      yield* sentenceUnits(text, open, line.end, 'paragraph')
      open = line.end
    } else if (OWN_LINE.test(line.content)) {
      yield* sentenceUnits(text, open, line.start, 'line')
      open = line.start
    }
  }
  yield* sentenceUnits(text, open, end, 'paragraph')
}

function* sentenceUnits(text: string, start: number, end: number, border: Unit['border']): Generator<Unit> {
  for (const sentenceEnd of sentenceEnds(text, start, end)) {
    yield { start, end: sentenceEnd, border: sentenceEnd === end ? border : 'sentence' }
    start = sentenceEnd
  }
}

/** A block of code stays in one piece as long as it fits, else it is cut between its lines. */
function* codeUnits(text: string, { start, end }: Range, mark: string): Generator<Unit> {
  const fence = mark.slice(0, FENCE_CHARS)
  if (end - start <= UNIT_CHARS) {
    yield { start, end, border: 'paragraph', code: { fence, first: true, last: true } }
    return
  }
  for (const line of linesOf(text, start, end)) {
    for (const unit of codeLine(text, line)) {
      const last = unit.end === end
      const code = { fence, first: unit.start === start, last }
      yield { ...unit, border: last ? 'paragraph' : 'line', code }
    }
  }
}

function* codeLine(text: string, { start, end }: Range): Generator<Range> {
  if (end - start <= UNIT_CHARS) yield { start, end }
  else yield* sentenceUnits(text, start, end, 'line')
}
