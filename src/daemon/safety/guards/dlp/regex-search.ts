import { RE2JS } from 're2js'
import { GUARD_PATTERN } from '../../../../shared/spec-limits.ts'
import { atOnce } from '../../../platform/pacing.ts'
import { DETECTION_HOLD_CHARS, type Detector, type Effort, type Finding, UNREAD } from '../detection.ts'
import { partialMatches } from './partial-match.ts'
import { beforeOneOf, heldFrom } from './word-search.ts'

export type RegexSearchOptions = {
  type: string
  caseSensitive?: boolean
  /** No finding is longer, and so much of a stream is held back. */
  maxChars: number
  /** Whether what matches counts. */
  isValid?: (value: string) => boolean
}

/** Why a pattern of a customer is refused; the message is for them. */
export class PatternRefused extends Error {
  override name = 'PatternRefused'
}

/** So much is read in one go, besides what a match may have beyond it: a program of the largest size takes milliseconds. */
const WINDOW_CHARS = 1_024
/** Texts that a pattern for something matches nothing empty in. */
const PROBES = ['', ' ', 'a', '0 a', 'é\n_']

/**
 * A pattern written by a customer, in the syntax of RE2, which takes linear time whatever the pattern. Yet many large
 * programs over a long text can take seconds, so `find` stops when the effort of its request is used up: the rest of the
 * text is then found as UNREAD. A rule that blocks fails closed, and says that this is why.
 * @throws PatternRefused
 */
export function createRegexSearch(pattern: string, options: RegexSearchOptions): Detector {
  const { type, maxChars, isValid = () => true } = options
  const caseSensitive = options.caseSensitive ?? false
  const regex = compile(pattern, caseSensitive)
  const fold = caseSensitive ? (text: string) => text : withoutCase
  const literal = beginningOf(pattern)
  const beginning = fold(literal)
  const literals = new RegExp(escaped(literal), caseSensitive ? 'gu' : 'giu')
  const size = regex.programSize()
  const partial = partialMatches(regex)

  /** The longest match at `start` that is no longer than allowed, or -1; what follows further on cannot change it. */
  function endWithin(text: string, start: number): number {
    const from = Math.max(0, start - 1)
    const slice = text.slice(from, start + maxChars)
    const matcher = regex.matcher(slice)
    return matcher.find(start - from) && matcher.start() === start - from ? from + matcher.end() : -1
  }

  /** The first place from `at` on where a match may begin. */
  function nextStart(text: string, at: number): number {
    if (literal === '') return at
    literals.lastIndex = at
    return literals.exec(text)?.index ?? text.length
  }

  function* find(text: string, effort?: Effort, from = 0): Generator<void, Finding[]> {
    const findings: Finding[] = []
    let next = nextStart(text, from)
    while (next < text.length) {
      const until = Math.min(text.length, next + WINDOW_CHARS)
      // One character before for the word boundary, one more behind than a match may have.
      const first = Math.max(0, next - 1)
      const read = text.slice(first, until + maxChars + 1)
      const matcher = regex.matcher(read)
      while (next < until) {
        // Where a match ends says nothing of how far was looked for a better one.
        if (effort?.spend((first + read.length - next) * size) === false) {
          return [...findings, ...unread(text, next, findings.at(-1))]
        }
        const isThere = matcher.find(next - first)
        yield
        if (!isThere) break
        const start = first + matcher.start()
        if (start >= until) break
        let end = first + matcher.end()
        if (end - start > maxChars) end = endWithin(text, start)
        const isFound = end > start && isValid(text.slice(start, end))
        if (isFound) findings.push({ start, end, type, confidence: 1 })
        next = isFound ? end : start + 1
      }
      next = nextStart(text, Math.max(next, until))
    }
    return findings
  }

  function* openFrom(text: string, effort?: Effort, decidedTo = 0): Generator<void, number> {
    const from = Math.max(decidedTo, text.length - maxChars - 1)
    const begun = beginning === '' ? from : from + beginningIn(fold(text.slice(from)), beginning)
    if (begun === text.length) return begun
    const { open: started, steps } = yield* partial.openFrom(text, wholeCharacter(text, begun))
    // Without effort left nobody knows what is open.
    const open = effort?.spend(steps) === false ? wholeCharacter(text, begun) : started
    if (open === text.length || open <= decidedTo) return open
    const held = heldFrom(open)
    return beforeOneOf(open, yield* find(text.slice(held), effort, Math.max(0, decidedTo - held)))
  }

  return {
    find: (text) => atOnce(find(text)),
    openFrom: (text) => atOnce(openFrom(text)),
    holdsOnlyValues: true,
    slowly: { find, openFrom },
  }
}

/** What every match begins with, as it is written where case counts; empty when nothing is fixed. */
const beginningOf = (pattern: string): string => String(RE2JS.compile(pattern).re2().prefix ?? '')

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')

/** The first place where what every match begins with stands, or may turn out to; the end when there is none. */
function beginningIn(text: string, beginning: string): number {
  const whole = text.indexOf(beginning)
  if (whole >= 0) return whole
  for (let at = Math.max(0, text.length - beginning.length + 1); at < text.length; at += 1) {
    if (beginning.startsWith(text.slice(at))) return at
  }
  return text.length
}

/** One spelling for all letters that a pattern takes for the same, each of one code unit as before. */
function withoutCase(text: string): string {
  let folded = ''
  for (let at = 0; at < text.length; at += 1) {
    const char = text.charAt(at)
    const small = char.toUpperCase().toLowerCase()
    folded += small.length === 1 ? small : char
  }
  return folded
}

/** The rest that was not read, in findings that are no longer than one may be. */
function unread(text: string, readTo: number, last: Finding | undefined): Finding[] {
  const findings: Finding[] = []
  let start = wholeCharacter(text, Math.max(readTo, last?.end ?? 0))
  while (start < text.length) {
    const end = wholeCharacter(text, Math.min(text.length, start + DETECTION_HOLD_CHARS))
    findings.push({ start, end, type: UNREAD, confidence: 0 })
    start = end
  }
  return findings
}

/** `at`, or one before where that would be in the middle of a surrogate pair. */
function wholeCharacter(text: string, at: number): number {
  const code = text.charCodeAt(at)
  return code >= 0xdc00 && code <= 0xdfff && at > 0 ? at - 1 : at
}

/** @throws PatternRefused */
function compile(pattern: string, caseSensitive: boolean): RE2JS {
  if (pattern.length > GUARD_PATTERN.chars) {
    throw new PatternRefused(`pattern may have at most ${GUARD_PATTERN.chars} characters`)
  }
  if (hasAnchor(pattern)) {
    throw new PatternRefused('pattern must not use ^, $, \\A or \\z: a text may come in pieces; \\b is a word boundary')
  }
  let regex: RE2JS
  try {
    regex = RE2JS.compile(pattern, caseSensitive ? 0 : RE2JS.CASE_INSENSITIVE)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : 'not understood'
    throw new PatternRefused(`pattern is no regular expression in the syntax of RE2: ${reason}`, { cause })
  }
  if (regex.programSize() > GUARD_PATTERN.program) {
    throw new PatternRefused('pattern repeats too much: write shorter repetitions, or several rules')
  }
  for (const probe of PROBES) {
    const matcher = regex.matcher(probe)
    if (matcher.find() && matcher.start() === matcher.end()) throw new PatternRefused('pattern must not match nothing')
  }
  return regex
}

/** Whether an anchor stands outside of brackets. */
function hasAnchor(pattern: string): boolean {
  let inClass = false
  for (let at = 0; at < pattern.length; at += 1) {
    const char = pattern[at]
    if (char === '\\') {
      at += 1
      if (!inClass && /[AzZ]/.test(pattern[at] ?? '')) return true
    } else if (inClass) inClass = char !== ']'
    else if (char === '[') inClass = true
    else if (char === '^' || char === '$') return true
  }
  return false
}
