// Splits Markdown and plain text into sections under their headings.
import { endsFence, fenceOf } from '../../platform/text/code-fence.ts'

export type TextFormat = 'text' | 'markdown'
/** A range of text under one heading. `start` and `end` are offsets into the text. */
export type Section = { headings: readonly string[]; start: number; end: number }
type Outline = { title: string; sections: Iterable<Section> }

/**
 * The maximum length of a heading. A longer line that begins with # counts as text, because a heading is repeated in
 * every passage below it.
 */
const HEADING_CHARS = 200

/**
 * Returns the sections in order. Together the sections contain all of the text except headings and front matter. Plain
 * text is one section.
 */
export function outlineOf(text: string, format: TextFormat): Outline {
  if (format === 'text') return { title: '', sections: [{ headings: [], start: 0, end: text.length }] }
  const frontMatter = findFrontMatter(text)
  const start = frontMatter?.end ?? 0
  return { title: frontMatter?.title || firstHeading(text, start), sections: sectionsOf(text, start) }
}

function* sectionsOf(text: string, from: number): Generator<Section> {
  const path: { level: number; title: string }[] = []
  let start = from
  // If a heading has no text below it, the heading becomes a separate section. Otherwise the heading would be lost.
  let loneHeading: { start: number; end: number } | undefined
  for (const heading of headingsOf(text, from)) {
    const hasText = isFilled(text, start, heading.start)
    const headings = path.map(({ title }) => title)
    if (hasText) yield { headings, start, end: heading.start }
    else if (loneHeading && heading.level <= (path.at(-1)?.level ?? 0)) yield { headings, ...loneHeading }
    while ((path.at(-1)?.level ?? 0) >= heading.level) path.pop()
    path.push(heading)
    loneHeading = { start: heading.titleStart, end: heading.titleEnd }
    start = heading.end
  }
  const headings = path.map(({ title }) => title)
  if (isFilled(text, start, text.length)) yield { headings, start, end: text.length }
  else if (loneHeading) yield { headings, ...loneHeading }
}

type Heading = { level: number; title: string; titleStart: number; titleEnd: number; start: number; end: number }

const ATX = /^ {0,3}(#{1,6})(?:[ \t]+|$)/
const SETEXT = /^ {0,3}(=+|-{2,})[ \t]*$/

function* headingsOf(text: string, from: number): Generator<Heading> {
  let fence: string | undefined
  let previous: Line | undefined
  let beforePrevious: Line | undefined
  for (const line of linesOf(text, from)) {
    const { content } = line
    if (fence !== undefined) {
      if (endsFence(content, fence)) fence = undefined
      previous = undefined
      continue
    }
    fence = fenceOf(content)
    if (fence !== undefined) previous = undefined
    else {
      const heading = atxHeading(line) ?? setextHeading(line, previous, beforePrevious)
      if (heading) yield heading
      beforePrevious = previous
      previous = heading ? undefined : line
    }
    if (previous === undefined) beforePrevious = undefined
  }
}

/**
 * `content` is the line without trailing space. For a long line, `content` is only the beginning, and `whole` is false.
 */
export type Line = { content: string; whole: boolean; start: number; end: number }

const LINE_CHARS = HEADING_CHARS + 10

/** Returns the lines between two offsets, without gaps. */
export function* linesOf(text: string, from: number, to: number = text.length): Generator<Line> {
  for (let start = from; start < to; ) {
    const newline = text.indexOf('\n', start)
    const end = newline === -1 || newline >= to ? to : newline + 1
    const whole = end - start <= LINE_CHARS
    yield { content: text.slice(start, whole ? end : start + LINE_CHARS).trimEnd(), whole, start, end }
    start = end
  }
}

function atxHeading({ content, whole, start, end }: Line): Heading | undefined {
  const match = ATX.exec(content)
  if (!match?.[1] || !whole) return undefined
  const title = content
    .slice(match[0].length)
    .replace(/(?:^|[ \t])#+$/, '')
    .trim()
  if (title === '' || title.length > HEADING_CHARS) return undefined
  const titleStart = start + content.indexOf(title, match[0].length)
  return { level: match[1].length, title, titleStart, titleEnd: titleStart + title.length, start, end }
}

/** A line of text is also a heading if it follows an empty line and precedes a line of === or ---. */
function setextHeading(line: Line, title: Line | undefined, before: Line | undefined): Heading | undefined {
  const mark = line.whole && title?.whole ? SETEXT.exec(line.content)?.[1] : undefined
  if (mark === undefined || title === undefined || (before !== undefined && before.content !== '')) return undefined
  if (
    title.content === '' ||
    title.content.length > HEADING_CHARS ||
    /^\s*([-*+>|]|\d+[.)]|\s{4})/.test(title.content)
  ) {
    return undefined
  }
  const trimmed = title.content.trim()
  const titleStart = title.start + title.content.indexOf(trimmed)
  const titleEnd = titleStart + trimmed.length
  return {
    level: mark.startsWith('=') ? 1 : 2,
    title: trimmed,
    titleStart,
    titleEnd,
    start: title.start,
    end: line.end,
  }
}

const FRONT_MATTER_CHARS = 10_000

function findFrontMatter(text: string): { title: string; end: number } | undefined {
  const match = /^---[ \t]*\n([\s\S]*?)\n(?:---|\.\.\.)[ \t]*(?:\n|$)/.exec(text.slice(0, FRONT_MATTER_CHARS))
  if (!match) return undefined
  const title = /^title:[ \t]*(.+)$/m.exec(match[1] ?? '')?.[1] ?? ''
  return {
    title: title
      .trim()
      .replace(/^(["'])(.*)\1$/, '$2')
      .slice(0, HEADING_CHARS),
    end: match[0].length,
  }
}

/** The document's title is a heading before this offset in the text. A heading after this offset is not the title. */
const TITLE_CHARS = 100_000

function firstHeading(text: string, from: number): string {
  for (const { title } of headingsOf(text.slice(0, from + TITLE_CHARS), from)) return title
  return ''
}

function isFilled(text: string, start: number, end: number): boolean {
  const visible = /\S/g
  visible.lastIndex = start
  const found = visible.exec(text)
  return found !== null && found.index < end
}
