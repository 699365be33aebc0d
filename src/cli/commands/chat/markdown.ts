/** Renders streamed Markdown. Printed text never changes. */
import type { Token, Tokens } from 'marked'
import { terminalText } from '../../output/terminal-text.ts'
import { closesFence, type Fence, findFence, withoutIndent } from './fence.ts'
import { blockLines, itemLines, known, type Look } from './markdown-blocks.ts'

/** Longer blocks are printed without rendering, because each new line would parse the whole pending text again. */
const PENDING_CHARS = 8_192

export type MarkdownText = {
  /** Adds a chunk and returns the text that can be printed now. */
  push(chunk: string): string
  /** Returns the remaining text. After this call, the whole output ends with exactly one newline. */
  end(): string
}

/**
 * Renders each block when it is complete. Renders code and lists line by line. Removes control characters from the text
 * first, so that the result contains only our own escape sequences.
 */
export async function createMarkdown(look: Look): Promise<MarkdownText> {
  const { Lexer } = await import('marked')
  const harmless = terminalText()
  /** The last line, buffered until its newline arrives. */
  let line = ''
  /** Lines of incomplete blocks. */
  let pending = ''
  let kindBefore = 'blank'
  let code: Fence | undefined
  /** The last list, if more items may follow. */
  let list: { ordered: boolean; next: number } | undefined
  let isFirst = true

  const read = (text: string): Token[] => {
    try {
      return new Lexer({ gfm: true }).lex(text)
    } catch {
      // The library is recursive, so thousands of nested quotes overflow the stack. The text is then shown unchanged.
      return [{ type: 'text', raw: text, text }]
    }
  }

  const shown = (lines: string[], { continues = false } = {}): string => {
    if (lines.length === 0) return ''
    const gap = isFirst || continues ? '' : '\n'
    isFirst = false
    return `${gap}${lines.join('\n')}\n`
  }

  const showItems = (token: Tokens.List, items: Tokens.ListItem[]): string => {
    const continues = list !== undefined && list.ordered === token.ordered
    let next = list !== undefined && continues ? list.next : token.start === '' ? 1 : token.start
    const lines = items.flatMap((item) => itemLines(item, token.ordered ? `${next++}. ` : '• ', look))
    list = { ordered: token.ordered, next }
    return shown(lines, { continues })
  }

  const show = (block: Token): string => {
    const token = known(block)
    if (token.type === 'list') return showItems(token, token.items)
    if (token.type === 'space') return ''
    list = undefined
    return shown(blockLines(token, look))
  }

  /** Shows the complete blocks of the pending text. The last block stays pending if it may continue. */
  const settle = (): string => {
    const tokens = read(pending)
    const last = tokens.findLastIndex(({ type }) => type !== 'space')
    const block = tokens[last]
    if (block === undefined) return ''
    const token = known(block)
    let text = tokens.slice(0, last).map(show).join('')
    const rest = tokens
      .slice(last)
      .map(({ raw }) => raw)
      .join('')
    if (token.type === 'list') {
      const done = token.items.slice(0, -1)
      const raw = done.map((item) => item.raw).join('')
      if (done.length > 0 && rest.startsWith(raw)) {
        text += showItems(token, done)
        pending = rest.slice(raw.length)
      } else pending = rest
      return text
    }
    const isOver = /\n\n$/.test(pending) || token.type === 'heading' || token.type === 'hr'
    pending = isOver ? '' : rest
    return isOver ? text + show(token) : text
  }

  const flush = (): string => {
    const text = read(pending).map(show).join('')
    pending = ''
    kindBefore = 'blank'
    return text
  }

  const flushUnchanged = (): string => {
    const text = shown(pending.replace(/\n$/, '').split('\n'))
    pending = ''
    list = undefined
    return text
  }

  const takeLine = (text: string): string => {
    if (code !== undefined) {
      const isEnd = closesFence(text, code)
      const result = isEnd ? look.painter.dim(code.mark) : withoutIndent(text, code)
      if (isEnd) code = undefined
      return `${result}\n`
    }
    const fence = findFence(text)
    if (fence !== undefined) {
      const before = flush()
      code = fence
      list = undefined
      return before + shown([look.painter.dim(`${fence.mark}${fence.language}`)])
    }
    const kind = kindOf(text)
    const mayComplete = kind === 'blank' || kind === 'item' || kind !== kindBefore
    kindBefore = kind
    pending += `${text}\n`
    if (pending.length > PENDING_CHARS) return flushUnchanged()
    return mayComplete ? settle() : ''
  }

  return {
    push(chunk) {
      const lines = (line + harmless.push(chunk)).split('\n')
      line = lines.pop() ?? ''
      return lines.map(takeLine).join('')
    },
    end() {
      const text = (line === '' ? '' : takeLine(line)) + flush()
      line = ''
      const isEmpty = isFirst
      isFirst = false
      return isEmpty ? `${text}\n` : text
    },
  }
}

/**
 * Returns the kind of block that a line may begin. A line of another kind completes the previous block. An indented
 * line belongs to a list item.
 */
function kindOf(line: string): string {
  if (line.trim() === '') return 'blank'
  const [, mark = ''] = /^ ?(#{1,6}(?=\s)|>|[-*+](?=\s)|\d{1,9}[.)](?=\s)|\||([-_*=] *){3,}$)/.exec(line) ?? []
  if (mark === '') return 'prose'
  if (mark === '>' || mark === '|') return mark
  return mark.startsWith('#') || /^([-_*=] *){3,}$/.test(line.trim()) ? 'line' : 'item'
}
