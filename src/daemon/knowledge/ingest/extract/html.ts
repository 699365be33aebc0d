import { Parser } from 'htmlparser2'
import { createTextParts, plainLine } from './text-parts.ts'
import { UnreadableDocument } from './unreadable.ts'

/** The maximum nesting of HTML elements. */
const HTML_DEPTH = 5_000

/** Elements that are not displayed. */
const UNSEEN = new Set(['script', 'style', 'noscript', 'template', 'svg', 'math', 'iframe', 'object', 'select'])
const BLOCKS = new Set([
  ...['address', 'article', 'aside', 'blockquote', 'body', 'caption', 'center', 'dd', 'details', 'dialog', 'div', 'dl'],
  ...[
    'dt',
    'fieldset',
    'figcaption',
    'figure',
    'footer',
    'form',
    'header',
    'hr',
    'html',
    'li',
    'main',
    'nav',
    'ol',
    'p',
  ],
  ...['section', 'summary', 'table', 'tbody', 'tfoot', 'thead', 'tr', 'ul'],
])
const HEADING = /^h([1-6])$/
const HIDING_STYLE =
  /(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))\s*(?:!\s*important\s*)?(?:;|$)/i
/**
 * Elements that contain the whole page. These elements count as visible even if they are hidden, because a script
 * usually shows them later.
 */
const WHOLE_PAGE = new Set(['html', 'body'])

/**
 * Whether an element is hidden from readers. Hidden text is not indexed, because it may be intended only for the model.
 */
function isHidden(name: string, attributes: Readonly<Record<string, string>>): boolean {
  if (UNSEEN.has(name)) return true
  if (WHOLE_PAGE.has(name)) return false
  const { hidden, style = '', 'aria-hidden': isAriaHidden = '' } = attributes
  // Content that is hidden `until-found` is indexed, because browsers show it to users who search the page for it.
  if (hidden !== undefined && hidden.toLowerCase() !== 'until-found') return true
  return isAriaHidden.toLowerCase() === 'true' || HIDING_STYLE.test(style.replace(/\/\*.*?\*\//gs, ''))
}

/**
 * Converts HTML to Markdown with headings, lists, tables and code, but without layout. `title` is the page title. Any
 * text is accepted as HTML.
 * @throws UnreadableDocument if the text is too long
 */
export function htmlToMarkdown(html: string): { title: string; text: string } {
  const text = createTextParts()
  let title = ''
  let line = ''
  /** The prefix of the next line: the marker of a heading or of a list item. */
  let mark = ''
  /** The current nesting depth inside a hidden element. 0 means outside. */
  let hiddenDepth = 0
  let inTitle = false
  let cells = 0
  let code: string | undefined
  let depth = 0

  function endLine(end = '\n\n'): void {
    const words = line.replace(/\s+/g, ' ').trim()
    line = ''
    if (words === '') return
    text.add(`${mark === '' ? plainLine(words) : mark + words}${end}`)
    mark = ''
  }

  const parser = new Parser({
    onopentag(name, attributes) {
      if (++depth > HTML_DEPTH) throw new UnreadableDocument(`The HTML is nested more than ${HTML_DEPTH} levels deep.`)
      if (hiddenDepth === 0 && isHidden(name, attributes)) hiddenDepth = depth
      if (hiddenDepth > 0) return
      if (name === 'title' && title === '') inTitle = true
      const heading = HEADING.exec(name)
      if (code !== undefined) {
        // In a code block, elements are dropped and only their text is kept; a block element ends the line.
        if (BLOCKS.has(name) || heading || name === 'pre' || name === 'br') code += '\n'
      } else if (cells > 0 && name !== 'tr' && name !== 'td' && name !== 'th') {
        // The content of a table cell is joined into one line, regardless of the elements in it.
        line += BLOCKS.has(name) || heading || name === 'br' ? ' ' : ''
        if (name === 'table') cells++
      } else if (name === 'pre') {
        endLine()
        code = ''
      } else if (heading) {
        endLine()
        mark = `${'#'.repeat(Number(heading[1]))} `
      } else if (name === 'li') {
        endLine()
        mark = '- '
      } else if (name === 'tr') {
        if (cells <= 1) endLine('\n')
        mark = '| '
      } else if (name === 'td' || name === 'th') {
        cells = Math.max(cells, 1)
        if (line !== '') line += ' | '
      } else if (name === 'br') {
        endLine('\n')
      } else if (BLOCKS.has(name)) endLine()
    },
    onclosetag(name) {
      const isHiddenEnd = depth-- === hiddenDepth
      if (hiddenDepth > 0) {
        if (isHiddenEnd) hiddenDepth = 0
        return
      }
      if (name === 'title') inTitle = false
      if (code !== undefined) {
        if (name !== 'pre') return
        addCode(code)
        code = undefined
      } else if (name === 'tr' && cells <= 1) {
        cells = 0
        endLine('\n')
      } else if (name === 'table') {
        cells = Math.max(cells - 1, 0)
        if (cells === 0) {
          endLine()
          mark = ''
          text.add('\n')
        } else line += ' '
      } else if (cells > 0) line += BLOCKS.has(name) || HEADING.test(name) ? ' ' : ''
      else if (BLOCKS.has(name) || HEADING.test(name)) {
        endLine()
        // Text that follows an empty heading or list item must not get its marker.
        if (HEADING.test(name) || name === 'li') mark = ''
      }
    },
    ontext(words) {
      if (hiddenDepth > 0) return
      if (inTitle) title += words
      else if (code !== undefined) code += words
      else line += words
    },
  })

  function addCode(content: string): void {
    const body = content.replace(/^\n/, '').trimEnd()
    if (body.trim() === '') return
    const longest = Math.max(2, ...(body.match(/`+/g) ?? []).map((run) => run.length))
    const fence = '`'.repeat(Math.min(longest, FENCE_CHARS) + 1)
    text.add(`${fence}\n${body}\n${fence}\n\n`)
  }

  for (let at = 0; at < html.length; at += PIECE_CHARS) parser.write(html.slice(at, at + PIECE_CHARS))
  parser.end()
  endLine()
  if (code !== undefined) addCode(code)
  return { title: title.replace(/\s+/g, ' ').trim().slice(0, TITLE_CHARS), text: text.toString() }
}

const PIECE_CHARS = 1_048_576
const FENCE_CHARS = 20
const TITLE_CHARS = 200
