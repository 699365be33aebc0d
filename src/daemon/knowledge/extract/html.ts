import { Parser } from 'htmlparser2'
import { HTML_DEPTH } from '../../../shared/spec-limits.ts'
import { createTextParts, plainLine } from './text-parts.ts'
import { UnreadableDocument } from './unreadable.ts'

/** What a reader does not see. */
const HIDDEN = new Set(['script', 'style', 'noscript', 'template', 'svg', 'math', 'iframe', 'object', 'select'])
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

/**
 * HTML as Markdown with its headings, lists, tables and code, and without what only looks; `title` is that of the page.
 * Any text is HTML to some degree, so none is refused.
 * @throws UnreadableDocument when the text is too long
 */
export function htmlToMarkdown(html: string): { title: string; text: string } {
  const text = createTextParts()
  let title = ''
  let line = ''
  /** What the next line begins with: the mark of a heading or of a list item. */
  let mark = ''
  let hidden = 0
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
    onopentagname(name) {
      if (++depth > HTML_DEPTH) throw new UnreadableDocument(`The HTML is nested more than ${HTML_DEPTH} levels deep.`)
      if (name === 'title' && title === '') inTitle = true
      if (HIDDEN.has(name)) hidden++
      if (hidden > 0) return
      const heading = HEADING.exec(name)
      if (code !== undefined) {
        // Whatever is in a block of code is text, line by line.
        if (BLOCKS.has(name) || heading || name === 'pre' || name === 'br') code += '\n'
      } else if (cells > 0 && name !== 'tr' && name !== 'td' && name !== 'th') {
        // A cell is one line, whatever it is made of.
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
      depth--
      if (name === 'title') inTitle = false
      if (HIDDEN.has(name) && hidden > 0) {
        hidden--
        return
      }
      if (hidden > 0) return
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
        // An empty heading or item marks nothing that comes after it.
        if (HEADING.test(name) || name === 'li') mark = ''
      }
    },
    ontext(words) {
      if (inTitle) title += words
      else if (hidden > 0) return
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
