import { codeUnitsOf } from '../../../platform/text/code-units.ts'
import { DETECTION_HOLD_CHARS, type Detector, type Finding, remembering } from '../detection.ts'
import { ALPHANUMERIC, endOf, has, RUN } from './characters.ts'
import {
  bareValueAt,
  elementValueAt,
  NamingWords,
  namedRandom,
  programPasswordAt,
  QUOTED_CHARS,
  quotedIsOpen,
  quotedValueAt,
} from './keyed-values.ts'
import { mayBeHead, openKeyFrom, privateKeyAt } from './private-keys.ts'
import { isWordy, looksRandom, RANDOM_CHANGES, RANDOM_CHARS } from './randomness.ts'
import { createListedSecrets } from './secretlint.ts'
import { openTokenFrom, TOKEN_CHARS, tokenAt } from './token-formats.ts'
import { shapesIn } from './token-shapes.ts'
import { beforeFinding } from './word-search.ts'
import { writtenCredentials } from './written-credentials.ts'

/** Matches the password in `https://name:password@host`. */
const URL_PASSWORD = /:\/\/([^\s:/]{0,100}):([^/\s]{3,200})@[\w[%]/
/** Matches a token in place of a user: `https://token@host`. */
const URL_TOKEN = /:\/\/([\w-]{20,100})@[\w[%]/
const TEMPLATE = /[${<%*]|^(?:x+|pass|passwd|pwd|p)$/i
/** Matches the userinfo of an address that only shows where a name and a password belong. */
const EXAMPLE_USERINFO = /^(?:username:password|foo:bar|:password)$/i

const [HYPHEN, COLON, EQUALS, GREATER, CAPITAL_P] = [45, 58, 61, 62, 80]
const QUOTES = ['"', "'", '`'] as const
const isQuote = (code: number): boolean => code === 34 || code === 39 || code === 96

/**
 * Finds secrets: tokens of documented formats, private keys, passwords in URLs, and values that a name or a nearby word
 * marks as secret. One pass examines only two things: long runs without whitespace, and the quotes and assignments
 * after a name.
 */
export function createSecretsDetector(): Detector {
  const listed = createListedSecrets()
  const find = remembering((text) => {
    const scan = new SecretScan(text)
    scan.run()
    const own = withoutOverlap([...scan.findings, ...writtenCredentials(text)])
    return withoutOverlap([...own, ...apartFrom(own, listed(text, scan.longRuns))])
  })
  return {
    find,
    openFrom(text) {
      const open = openFrom(text, Math.max(0, text.length - DETECTION_HOLD_CHARS))
      return open === text.length ? open : beforeFinding(open, text, find)
    },
    begunFrom(text) {
      const from = Math.max(0, text.length - DETECTION_HOLD_CHARS)
      const run = lastRunFrom(text, from)
      return openKeyFrom(text, from, openQuoteFrom(text, from, begunInRun(text, run)))
    },
  }
}

const [BETWEEN, INSIDE, MARK, QUOTE] = [0, 1, 2, 3]
/** The kind of each character. Short runs are examined only if they contain a mark (`=`, `:` or `-`). */
const KIND = Uint8Array.from(RUN, (isInside, code) =>
  code === EQUALS || code === COLON || code === HYPHEN ? MARK : isQuote(code) ? QUOTE : isInside ? INSIDE : BETWEEN,
)

class SecretScan {
  readonly findings: Finding[] = []
  /** The runs that may contain a token: [start, end, start, end, …]. */
  readonly longRuns: number[] = []
  readonly #text: string
  readonly #words: NamingWords
  /** Text before this offset already belongs to a finding. */
  #from = 0

  constructor(text: string) {
    this.#text = text
    this.#words = new NamingWords(text)
  }

  run(): void {
    const length = this.#text.length
    const units = codeUnitsOf(this.#text)
    let start = 0
    let isMarked = false
    for (let at = 0; at < length; at += 1) {
      const code = units[at] as number
      const kind = code < 128 ? KIND[code] : BETWEEN
      if (kind === INSIDE) continue
      if (kind === MARK) {
        isMarked = true
        continue
      }
      if (isMarked || at - start >= RANDOM_CHARS) this.#readRun(start, at)
      if (kind === QUOTE && at >= this.#from) this.#readQuote(at)
      if (code === GREATER && at >= this.#from) this.#readElement(at + 1)
      if (this.#from > at + 1) at = this.#from - 1
      start = at + 1
      isMarked = false
    }
    if (isMarked || length - start >= RANDOM_CHARS) this.#readRun(start, length)
  }

  #readQuote(at: number): void {
    const before = at === 0 ? Number.NaN : this.#text.charCodeAt(at - 1)
    if (has(ALPHANUMERIC, before)) return
    const value = quotedValueAt(this.#text, at)
    if (value) this.#add(value.start, value.end, value.type, 0.8)
  }

  #readElement(start: number): void {
    if (!has(RUN, this.#text.charCodeAt(start)) || !has(ALPHANUMERIC, this.#text.charCodeAt(start - 2))) return
    const end = endOf(RUN, this.#text, start, Math.min(this.#text.length, start + VALUE_CHARS))
    const value = elementValueAt(this.#text, start, end)
    if (value) this.#add(value.start, value.end, value.type, 0.7)
  }

  #readRun(start: number, runEnd: number): void {
    const text = this.#text
    const end = Math.min(runEnd, start + TOKEN_CHARS)
    const isLong = end - start >= RANDOM_CHARS
    let digits = 0
    let changes = 0
    let last = 0
    let boundary = true
    for (let at = start; at < end; at += 1) {
      const code = text.charCodeAt(at)
      const isAlphanumeric = has(ALPHANUMERIC, code)
      if (at < this.#from) {
        boundary = !isAlphanumeric
        continue
      }
      if (isAlphanumeric) {
        const kind = code <= 57 ? 1 : code <= 90 ? 2 : 3
        if (kind === 1) digits += 1
        if (kind !== last && last !== 0) changes += 1
        last = kind
        if (boundary && isLong) {
          const token = end - at > 1 ? tokenAt(text, at) : undefined
          if (token) this.#add(at, token.end, token.type, 0.99)
        }
        if (code === CAPITAL_P && boundary && mayBeHead(text, at)) this.#readKey(at)
      } else if (code === EQUALS || code === COLON) {
        this.#readAssignment(at, end)
      } else if (
        code === HYPHEN &&
        text.charCodeAt(at + 1) === HYPHEN &&
        (at === 0 || text.charCodeAt(at - 1) !== HYPHEN)
      ) {
        this.#readKey(at)
      }
      boundary = !isAlphanumeric
    }
    if (!isLong) return
    const run = text.slice(start, end)
    this.#readAddress(run, start)
    // Only runs that contain a digit are checked, because machine-generated text of this length always contains a
    // digit.
    if (digits === 0) return
    this.longRuns.push(start, end)
    for (const shape of shapesIn(run)) this.#add(start + shape.start, start + shape.end, shape.type, 0.95)
    // The search for nearby words is expensive, so plain numbers and names are excluded first.
    if (start >= this.#from && digits >= RANDOM_DIGITS && changes >= RANDOM_CHANGES) {
      const value = namedRandom(text, this.#words, start, end)
      if (value) this.#add(value.start, value.end, value.type, 0.7)
    }
  }

  #readKey(at: number): void {
    const key = privateKeyAt(this.#text, at)
    if (key) this.#add(at, key.end, 'private-key', 0.99)
  }

  /** Reads `name=value` and `name: value`. Quoted values are read by `#readQuote`. */
  #readAssignment(at: number, end: number): void {
    const text = this.#text
    let start = at + 1
    if (start >= end) start = endOfBlanks(text, start)
    else if (assignsOn(text.charCodeAt(start))) return
    if (!has(RUN, text.charCodeAt(start))) return
    const valueEnd = endOfAssigned(text, at, start)
    const value =
      bareValueAt(text, start, valueEnd) ?? (start === at + 1 ? programPasswordAt(text, at, valueEnd) : undefined)
    if (value) this.#add(value.start, value.end, value.type, 0.7)
  }

  #readAddress(run: string, start: number): void {
    if (!run.includes('://') || !run.includes('@')) return
    const token = URL_TOKEN.exec(run)
    if (token && looksRandom(token[1]!) && !isWordy(token[1]!)) {
      const from = start + token.index + '://'.length
      this.#add(from, from + token[1]!.length, 'keyed-secret', 0.8)
    }
    const match = URL_PASSWORD.exec(run)
    const [, user = '', password] = match ?? []
    if (match === null || password === undefined || TEMPLATE.test(password)) return
    if (EXAMPLE_USERINFO.test(`${user}:${password}`)) return
    const from = start + match.index + match[0].lastIndexOf(`:${password}@`) + 1
    this.#add(from, from + password.length, 'address-password', 0.9)
  }

  #add(start: number, end: number, type: string, confidence: number): void {
    this.findings.push({ start, end, type, confidence })
    this.#from = Math.max(this.#from, end)
  }
}

const VALUE_CHARS = 512

/** Returns the end of the value that begins at `start`. In a query, the next parameter ends it. */
function endOfAssigned(text: string, at: number, start: number): number {
  const end = endOf(RUN, text, start, Math.min(text.length, start + VALUE_CHARS))
  if (text.charCodeAt(at) !== EQUALS) return end
  const next = text.slice(start, end).search(/[&#]\w+(?:=|$)/)
  return next < 0 ? end : start + next
}
/** Whether the second character shows that an operator is not an assignment: `==`, `=>` or `::`. */
const assignsOn = (code: number): boolean => code === EQUALS || code === COLON || code === GREATER
/** The minimum number of digits in random text that only a nearby keyword marks as a secret. */
const RANDOM_DIGITS = 3

function endOfBlanks(text: string, at: number): number {
  let end = at
  while (end < at + 8 && (text[end] === ' ' || text[end] === '\t')) end += 1
  return end
}

/** Returns the findings in `others` that do not overlap a finding in `own`. `own` must be ordered and disjoint. */
function apartFrom(own: readonly Finding[], others: Finding[]): Finding[] {
  let next = 0
  return byStart(others).filter(({ start, end }) => {
    while (next < own.length && (own[next]?.end ?? 0) <= start) next += 1
    return (own[next]?.start ?? end) >= end
  })
}

const byStart = (findings: Finding[]): Finding[] =>
  findings.sort((one, other) => one.start - other.start || other.end - one.end)

/**
 * Sorts the findings. Merges overlapping findings into one. The merged finding has the type of the more confident one.
 */
function withoutOverlap(findings: Finding[]): Finding[] {
  const kept: Finding[] = []
  for (const finding of byStart(findings)) {
    const last = kept.at(-1)
    if (last === undefined || finding.start >= last.end) kept.push(finding)
    else {
      const { type, confidence } = finding.confidence > last.confidence ? finding : last
      kept[kept.length - 1] = { start: last.start, end: Math.max(last.end, finding.end), type, confidence }
    }
  }
  return kept
}

/**
 * Returns the start of the first range that later text may continue: an incomplete quoted value, an incomplete private
 * key, or the last run.
 */
const openFrom = (text: string, from: number): number =>
  openKeyFrom(text, from, openQuoteFrom(text, from, lastRunFrom(text, from)))

function lastRunFrom(text: string, from: number): number {
  let run = text.length
  while (run > from && has(RUN, text.charCodeAt(run - 1))) run -= 1
  return run
}

/** Returns the start of the first incomplete quoted value. Returns `limit` if there is no such value before `limit`. */
function openQuoteFrom(text: string, from: number, limit: number): number {
  let open = limit
  for (const quote of QUOTES) {
    let at = text.indexOf(quote, Math.max(from, text.length - QUOTED_CHARS - 1))
    while (at >= 0 && at < open && !quotedIsOpen(text, at)) at = text.indexOf(quote, at + 1)
    if (at >= 0 && at < open) open = at + 1
  }
  return open
}

/** Matches the user name and password of a URL whose host has not arrived yet. */
const URL_PASSWORD_BEGUN = /:\/\/[^\s:@/]{0,100}:[^@/\s]{1,200}@?$/
const URL_CREDENTIALS_CHARS = 310

/**
 * Returns the start of the first value in the last run. `run` is the start of this run. Only URL passwords and tokens
 * with a documented prefix count. Returns `text.length` if there is no such value.
 */
function begunInRun(text: string, run: number): number {
  const credentials = URL_PASSWORD_BEGUN.exec(text.slice(Math.max(run, text.length - URL_CREDENTIALS_CHARS)))
  const begun = credentials ? text.length - credentials[0].length : text.length
  return Math.min(begun, openTokenFrom(text, Math.max(run, text.length - TOKEN_CHARS)))
}
