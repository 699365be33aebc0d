/** Formats search results for people. */
import type { z } from 'zod'
import type { SearchResponse } from '../../../shared/wire/indexes.ts'
import type { Painter } from '../../output/colour.ts'
import { forTerminalLine } from '../../output/terminal-text.ts'
import { wrapLine } from '../../output/text-width.ts'

export type SearchMatch = z.infer<typeof SearchResponse>['results']['matches'][number]

const INDENT = 3
const WIDEST = 100

/** Prints the source of each match and then its passage. In the passage, words of the query are underlined. */
export function toPassages(
  matches: readonly SearchMatch[],
  query: string,
  { width, painter }: { width: number; painter: Painter },
): string {
  const words = wordsIn(query)
  const indent = ' '.repeat(INDENT)
  return matches
    .map(({ rank, score, source, content, metadata }) => {
      const page = metadata.page === null ? '' : `, page ${metadata.page}`
      const head = `${String(rank).padEnd(INDENT)}${painter.bold(forTerminalLine(source))}${page}  ${painter.dim(String(score))}`
      const lines = wrapLine(forTerminalLine(content), Math.min(WIDEST, width) - INDENT)
      const set = lines.map((line) => indent + (words ? line.replace(words, (word) => painter.underline(word)) : line))
      return `${[head, ...set].join('\n')}\n`
    })
    .join('\n')
}

const UNSPACED = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]/u

/** Matches words that begin with the approximate stem of a query word. Example: "payments" matches "payment". */
function wordsIn(query: string): RegExp | undefined {
  const words = query.match(/[\p{L}\p{N}\p{M}]+/gu) ?? []
  const patterns = words.flatMap((word) => {
    if (UNSPACED.test(word))
      return word.length < 2 ? [word] : [...word].slice(1).map((char, at) => [...word][at] + char)
    if (word.length < 3) return []
    const stem = word.length > 5 ? word.slice(0, Math.max(4, word.length - 3)) : word
    return [`(?<![\\p{L}\\p{N}])${stem}[\\p{L}\\p{N}\\p{M}]*`]
  })
  return patterns.length === 0 ? undefined : new RegExp(patterns.join('|'), 'giu')
}
