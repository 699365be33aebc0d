import { forTerminalLine } from '../../../output/terminal-text.ts'

const PREVIEW_CHARS = 24
const LABEL = /\[#\d+ [^\]\n]*\]/g

/** Lets one line of input stand for a text of many. */
export type Folding = {
  /** A label for a text that is no plain line; any other text is its own. */
  fold(text: string): string
  /** The line with the texts in place of their labels. */
  unfold(line: string): string
}

/** Keeps what was folded; labels differ, so a line may hold several. */
export function createFolding(): Folding {
  const texts = new Map<string, string>()
  const labels = new Map<string, string>()
  return {
    fold(text) {
      if (!/[\x00-\x1f\x7f-\x9f]/.test(text)) return text
      const known = labels.get(text)
      if (known !== undefined) return known
      const lines = text.split('\n').length
      const preview = forTerminalLine(text).replaceAll(']', '').trim().slice(0, PREVIEW_CHARS)
      const label = `[#${texts.size + 1} ${lines === 1 ? '1 line' : `${lines} lines`}: ${preview}…]`
      texts.set(label, text)
      labels.set(text, label)
      return label
    },
    unfold: (line) => line.replace(LABEL, (label) => texts.get(label) ?? label),
  }
}
