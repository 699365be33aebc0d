// Finds matches of a tenant's pattern in linear time, limited by a step budget.
import { RE2JS } from 're2js'
import { GUARD_PATTERN } from '../../../../shared/spec-limits.ts'
import { runToEnd } from '../../../platform/pacing.ts'
import { DETECTION_HOLD_CHARS, type Detector, type Effort, type Finding, UNREAD } from '../detection.ts'
import { partialMatches } from './partial-match.ts'
import { beforeOneOf, heldFrom } from './word-search.ts'

export type RegexSearchOptions = {
  type: string
  caseSensitive?: boolean
  /** The maximum length of a finding, and of the text that a stream holds back. */
  maxChars: number
  /** Validates a match. */
  isValid?: (value: string) => boolean
}

/** Thrown if a customer's pattern is rejected. The message is written for the customer. */
export class PatternRefused extends Error {
  override name = 'PatternRefused'
}

/**
 * How many start positions one call of the engine searches. A match may end after the last of these positions. A call
 * takes only milliseconds, even with the largest program.
 */
const WINDOW_CHARS = 1_024
/** Sample texts. A pattern that matches the empty string in one of these texts is rejected. */
const PROBES = ['', ' ', 'a', '0 a', 'é\n_']

/**
 * Creates a detector for a customer's pattern in RE2 syntax. The search takes linear time. Searching a long text for
 * many large patterns can still take seconds, so `find` stops when the request's step budget is exhausted. The rest of
 * the text is then reported as UNREAD. A rule with the action `block` then blocks the request and reports this reason.
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

  /**
   * Returns the end of the longest match at `start` within the maximum length, or -1. Text after that length cannot
   * change the result.
   */
  function endWithin(text: string, start: number): number {
    const from = Math.max(0, start - 1)
    const slice = text.slice(from, start + maxChars)
    const matcher = regex.matcher(slice)
    return matcher.find(start - from) && matcher.start() === start - from ? from + matcher.end() : -1
  }

  /** Returns the first position, at or after `at`, where a match may begin. */
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
      // The slice includes one character before the window, for the word boundary, and one character after the longest
      // possible match.
      const first = Math.max(0, next - 1)
      const read = text.slice(first, until + maxChars + 1)
      const matcher = regex.matcher(read)
      while (next < until) {
        // The whole window is charged to the step budget, because the engine may have searched beyond the end of the
        // match.
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
    // If the step budget is exhausted, the open position is unknown, so all text from `begun` on stays open.
    const open = effort?.spend(steps) === false ? wholeCharacter(text, begun) : started
    if (open === text.length || open <= decidedTo) return open
    const held = heldFrom(open)
    return beforeOneOf(open, yield* find(text.slice(held), effort, Math.max(0, decidedTo - held)))
  }

  return {
    find: (text) => runToEnd(find(text)),
    openFrom: (text) => runToEnd(openFrom(text)),
    holdsOnlyValues: true,
    slowly: { find, openFrom },
  }
}

/** Returns the literal prefix of all matches, or an empty string if they have none. */
const beginningOf = (pattern: string): string => String(RE2JS.compile(pattern).re2().prefix ?? '')

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')

/**
 * Returns the first position where the prefix occurs or may still be completed. Returns the end of the text if there is
 * no such position.
 */
function beginningIn(text: string, beginning: string): number {
  const whole = text.indexOf(beginning)
  if (whole >= 0) return whole
  for (let at = Math.max(0, text.length - beginning.length + 1); at < text.length; at += 1) {
    if (beginning.startsWith(text.slice(at))) return at
  }
  return text.length
}

/**
 * Folds the case of a text: letters that a case-insensitive pattern treats as equal become the same code unit. The
 * length of the text does not change.
 */
function withoutCase(text: string): string {
  let folded = ''
  for (let at = 0; at < text.length; at += 1) {
    const char = text.charAt(at)
    const small = char.toUpperCase().toLowerCase()
    folded += small.length === 1 ? small : char
  }
  return folded
}

/** Returns findings of the type UNREAD. Together, these findings cover the part of the text that was not scanned. */
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

/** Returns `at`, or `at - 1` if `at` would split a surrogate pair. */
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
    throw new PatternRefused(
      'pattern must not use ^, $, \\A or \\z, because text may arrive in pieces; use \\b for a word boundary',
    )
  }
  let regex: RE2JS
  try {
    regex = RE2JS.compile(pattern, caseSensitive ? 0 : RE2JS.CASE_INSENSITIVE)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : 'cannot be parsed'
    throw new PatternRefused(`pattern is not a valid RE2 regular expression: ${reason}`, { cause })
  }
  if (regex.programSize() > GUARD_PATTERN.program) {
    throw new PatternRefused('pattern has too many repetitions: use shorter repetitions or several rules')
  }
  for (const probe of PROBES) {
    const matcher = regex.matcher(probe)
    if (matcher.find() && matcher.start() === matcher.end())
      throw new PatternRefused('pattern must not match the empty text')
  }
  return regex
}

/** Whether the pattern has an anchor outside of brackets. */
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
