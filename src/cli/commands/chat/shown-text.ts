import type { CliContext } from '../../context.ts'
import { createPainter, mayColour, type Painter } from '../../output/colour.ts'

export const RENDER = ['auto', 'always', 'never'] as const
export type Render = (typeof RENDER)[number]

/** For a terminal that does not say how wide it is; some say zero. */
const DEFAULT_COLUMNS = 80

/** The text of one answer on stdout. */
export type ShownText = {
  write(text: string): Promise<void>
  /** After the last of it: one newline ends a complete answer. */
  finish(): Promise<void>
  /** After a part of it: what is said next stands on a line of its own, behind `mark`; a pipe gets not a byte too much. */
  breakOff(mark: string | undefined): Promise<void>
}

/**
 * Starts an answer: rendered, or the model's text byte for byte. By itself that is rendered for terminals that may be
 * coloured, since without styles the Markdown as written says more.
 */
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
      // Both streams may lead to one place, as in `2>&1`, and only stderr may be added to.
      if (mark !== undefined) io.stderr.write(`${atLineStart ? '' : '\n'}--- ${mark} ---\n`)
    },
  }
}

/** Loaded only for people who read: pipes and scripts need neither parser nor widths. */
async function openMarkdown(columns: number | undefined, painter: Painter) {
  const { createMarkdown } = await import('./markdown.ts')
  return createMarkdown({ painter, width: columns || DEFAULT_COLUMNS })
}
