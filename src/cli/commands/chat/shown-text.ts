/** Prints the text of one answer: rendered for a terminal, or byte for byte. */
import type { CliContext } from '../../context.ts'
import { createPainter, mayColour, type Painter } from '../../output/colour.ts'

export const RENDER = ['auto', 'always', 'never'] as const
export type Render = (typeof RENDER)[number]

/** The width for a terminal that reports zero or no width. */
const DEFAULT_COLUMNS = 80

/** The text of one answer on stdout. */
export type ShownText = {
  write(text: string): Promise<void>
  /** Ends a complete answer with one newline. */
  finish(): Promise<void>
  /** Ends a truncated answer: prints `mark` on its own line of stderr. If stdout is a pipe, nothing is added to it. */
  breakOff(mark: string | undefined): Promise<void>
}

/** Starts an answer. By default, Markdown is rendered only on colour terminals. */
export async function showText(context: CliContext, render: Render): Promise<ShownText> {
  const { io } = context
  const [output, { color }] = await Promise.all([context.output(), context.settings()])
  const { terminal } = output
  const mayStyle = mayColour({ flag: color, env: io.env, isTerminal: terminal })
  const isRendered = render === 'always' || (render === 'auto' && terminal && mayStyle)
  const markdown = isRendered ? await openMarkdown(io.stdout.columns, await createPainter(mayStyle)) : undefined
  const write = markdown === undefined ? output.textStream() : output.ownText
  const convert = markdown?.push ?? ((text: string) => text)
  let begun = false
  let atLineStart = true
  const put = async (text: string) => {
    if (text === '') return
    await write(text)
    atLineStart = text.endsWith('\n')
  }
  return {
    async write(text) {
      begun = true
      await put(convert(text))
    },
    finish: () => put(markdown?.end() ?? '\n'),
    async breakOff(mark) {
      if (!begun) return
      if (markdown !== undefined) await put(markdown.end())
      if (!atLineStart && terminal) await put('\n')
      // Writes the line break to stderr, because stdout must contain exactly the answer.
      if (mark !== undefined) io.stderr.write(`${atLineStart ? '' : '\n'}--- ${mark} ---\n`)
    },
  }
}

/** The Markdown parser is loaded on demand, because pipes and scripts do not need it. */
async function openMarkdown(columns: number | undefined, painter: Painter) {
  const { createMarkdown } = await import('./markdown.ts')
  return createMarkdown({ painter, width: columns || DEFAULT_COLUMNS })
}
