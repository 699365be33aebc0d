import { type Detector, type Finding, remembering } from '../detection.ts'

/** The minimum number of code lines of a block. */
const SOURCE_CODE_LINES = 6
/** The maximum length of a finding. A longer block is reported as several findings. */
const PIECE_CHARS = 4_096
/** The maximum length of a code line. Longer lines are assumed to be generated. */
const LINE_CHARS = 400

/** Matches typical starts of code lines. */
const STATEMENT =
  /^\s{0,64}(?:(?:export|import|from|package|using|include|require|module|function|func|fn|def|class|struct|enum|interface|impl|trait|type|const|let|var|val|public|private|protected|static|async|await|return|throw|raise|yield|elif|else|switch|case|try|catch|except|finally|while|foreach|namespace|override|SELECT|FROM|WHERE|JOIN|GROUP BY|ORDER BY|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|begin|end)\b(?=[ \t({:;]|$)|(?:if|for) ?\(|#(?:include|define|ifdef|ifndef|endif|!)|@\w{1,64}[ \t]{0,4}(?:\(|$)|<\/?[A-Za-z][^>]{0,200}>|[\w$.[\]]{1,64}[ \t]{0,4}(?:[-+*/|&]?=|:=)[ \t]?[^=\s]|\/\/|\/\*|\*\s|--\s|[})\]]+[;,]?\s{0,64}$)/
/** Matches typical ends of code lines, without trailing whitespace. */
const ENDING = /(?:[;{}()[]|=>|->|&&|\|\||\)\s?:|\w:)$/
const BLANKS_AFTER = 64
/** Matches prose lines: they end with a sentence mark and contain no code symbols. */
const PROSE = /^[\s#>*\d.-]{0,16}[A-Z"'“(]?[\p{L}'’,;-]+(?: [\p{L}\d'’",;:()–-]+){4,}[.!?:]?\s{0,8}$/u

/** Whether a line looks like code. Lines without letters, such as `}`, are neutral. */
function isCode(line: string): boolean {
  if (line.length > LINE_CHARS) return false
  const begins = STATEMENT.test(line)
  const ends = endsAsCode(line)
  if (begins && ends) return true
  return (begins || ends) && !PROSE.test(line)
}

function endsAsCode(line: string): boolean {
  const written = line.trimEnd()
  return line.length - written.length <= BLANKS_AFTER && ENDING.test(written.slice(-3))
}

/** A line that opens or closes a fenced Markdown block: the fence and the info string. */
const FENCE = /^[\s>]{0,64}(?:[-*+]\s{1,4})?(`{3,64}|~{3,64})([^`]{0,200})$/

/**
 * Finds blocks of source code. A block has at least SOURCE_CODE_LINES lines of code; between two of them, there may be
 * at most one other line. A Markdown fence ends a block. In a fenced block, the first line of code already counts as a
 * value that has begun. A block without a fence is recognized only when its last required line arrives. A live stream
 * may then already have released the first lines.
 */
export function createSourceCodeDetector(): Detector {
  const read = remembering(blocksOf)
  const readEnd = (text: string) => {
    const from = Math.max(0, text.length - 2 * PIECE_CHARS)
    const { open, isFenced } = read(text.slice(from))
    return { open: open + from, isFenced }
  }
  return {
    find: (text) => read(text).findings,
    openFrom: (text) => readEnd(text).open,
    begunFrom(text) {
      const { open, isFenced } = readEnd(text)
      return isFenced ? open : text.length
    },
    contextChars: PIECE_CHARS,
  }
}

type Block = { start: number; end: number; lines: number; others: number }

/**
 * Finds all blocks in a text. `open` is the position at which a block may begin or continue, and `isFenced` is true if
 * this position is in a fenced block.
 */
function blocksOf(text: string): { findings: Finding[]; open: number; isFenced: boolean } {
  const findings: Finding[] = []
  let block: Block | undefined
  let isFenced = false
  const close = () => {
    if (block && block.lines >= SOURCE_CODE_LINES) {
      findings.push({ start: block.start, end: block.end, type: 'source-code', confidence: 0.8 })
    }
    block = undefined
  }
  let start = 0
  while (start < text.length) {
    const lineEnd = text.indexOf('\n', start)
    const end = lineEnd < 0 ? text.length : lineEnd
    const line = text.slice(start, Math.min(end, start + LINE_CHARS + 1))
    const fence = FENCE.exec(line)
    if (lineEnd < 0 && line.length <= LINE_CHARS) {
      // The last line is incomplete, so the block may still continue.
      const open = block?.start ?? start
      if (!fence && isCode(line)) block = extended(block, start, end)
      close()
      return { findings, open, isFenced }
    }
    if (fence) {
      // A bare fence after lines of code always closes a block: the scan of a stream may start inside a block, after
      // its opening fence.
      isFenced = !isFenced && (block === undefined || fence[2]?.trim() !== '')
      close()
    } else if (isCode(line)) {
      if (block && end - block.start > PIECE_CHARS) close()
      block = extended(block, start, end)
    } else if (block && line.trim() !== '') {
      block.others += 1
      if (block.others > 1) close()
    }
    start = end + 1
  }
  const open = block?.start ?? text.length
  close()
  return { findings, open, isFenced }
}

const extended = (block: Block | undefined, start: number, end: number): Block => ({
  start: block?.start ?? start,
  end,
  lines: (block?.lines ?? 0) + 1,
  others: 0,
})
