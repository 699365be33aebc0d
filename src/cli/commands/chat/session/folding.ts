/** Replaces each multi-line text by a label, because readline can edit only single lines. */
import { forTerminalLine } from '../../../output/terminal-text.ts'

const PREVIEW_CHARS = 24
const LABEL = /\[#\d+ [^\]\n]*\]/g

export type Folding = {
  /** Returns a label for a text with line breaks or control characters. Returns any other text unchanged. */
  fold(text: string): string
  /** Replaces the labels in a line with their texts. */
  unfold(line: string): string
}

/** Makes every label unique, so that one line can contain several labels. */
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
