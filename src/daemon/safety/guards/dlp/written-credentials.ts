import type { Finding } from '../detection.ts'
import { isBasicCredentials, isGenericValue } from './keyed-values.ts'

/** Credentials that neither their form nor a name directly before them marks as secret. */
type Written = {
  type: string
  /** The pattern is tried only if the text contains one of these. The search for them is fast. */
  marks: readonly string[]
  /**
   * The group `value` is the secret. It contains no blanks, so a stream holds it until it is complete. The text before
   * it has at most DETECTION_CONTEXT_CHARS characters.
   */
  pattern: RegExp
  accepts?: (value: string) => boolean
}

const WRITTEN: readonly Written[] = [
  {
    // A header of HTTP (RFC 7617).
    type: 'basic-credentials',
    marks: ['asic ', 'ASIC '],
    pattern: /\bbasic {1,4}(?<value>[A-Za-z0-9+/]{6,400}={0,2})/gi,
    accepts: isBasicCredentials,
  },
  {
    // A line of .netrc.
    type: 'password',
    marks: ['machine '],
    pattern: /\bmachine \S{1,80}\s{1,8}login\s{1,8}\S{1,80}\s{1,8}password\s{1,8}(?<value>[^\s"'`<>]{4,128})/g,
  },
  {
    // A line of .pgpass.
    type: 'password',
    marks: [':5432:'],
    pattern: /(?<![\w.*-])[\w.*-]{1,80}:5432:[\w*-]{1,60}:[\w*-]{1,60}:(?<value>[^\s"'`<>:]{4,128})/g,
  },
  {
    type: 'address-password',
    marks: ['jdbc:oracle:'],
    pattern: /jdbc:oracle:[a-z\d]{1,10}:[^\s/:@]{1,60}\/(?<value>[^\s/"'`<>;&,${}()@]{4,128})@/g,
  },
  {
    // The credentials of a server of gems, in a variable of Bundler.
    type: 'password',
    marks: ['BUNDLE_'],
    pattern: /\bBUNDLE_[A-Z\d_]{1,80}["']?\s{0,2}[=:]\s{0,2}["']?(?<value>[^\s"'`<>:;&]{4,60}:[^\s"'`<>:;&]{4,60})/g,
  },
  {
    type: 'password',
    marks: ['.login('],
    pattern: /\.login\(\s{0,8}(["'])[^"'\n]{1,80}\1\s{0,4},\s{0,8}["'](?<value>[^\s"'`<>]{4,128})/g,
  },
  {
    type: 'password',
    marks: ['DirectoryEntry('],
    pattern: /DirectoryEntry\(\s{0,8}"[^"\n]{1,80}",\s{0,16}"[^"\n]{1,60}",\s{0,16}"(?<value>[^\s"]{4,80})/g,
  },
  {
    type: 'password',
    marks: ['sexec', 'sExec', 'SEXEC'],
    pattern: /\bpsexec(?:\.exe)?["']?\s[^\n]{0,160}?\s-p\s{1,4}(?<value>[^\s"'<>,;()%$]{4,128})/gi,
  },
  {
    type: 'password',
    marks: ['-pass'],
    pattern: /(?<![\w-])--?pass(?:word|wd|phrase)?[ =]["']?(?<value>[^\s"'`<>,;()%$-][^\s"'`<>,;()]{3,127})/g,
    accepts: (value) => /\d/.test(value) && /[A-Za-z]/.test(value),
  },
]

/**
 * Finds credentials by the syntax around them: headers of HTTP, files of credentials, and arguments of programs. Takes
 * time linear in the length of the text.
 */
export function writtenCredentials(text: string): Finding[] {
  const found: Finding[] = []
  for (const { type, marks, pattern, accepts } of WRITTEN) {
    if (!marks.some((mark) => text.includes(mark))) continue
    for (const { 0: match, index, groups } of text.matchAll(pattern)) {
      const value = groups!.value!
      if (isGenericValue(value) || accepts?.(value) === false) continue
      const start = index + match.lastIndexOf(value)
      found.push({ start, end: start + value.length, type, confidence: 0.8 })
    }
  }
  return found
}
