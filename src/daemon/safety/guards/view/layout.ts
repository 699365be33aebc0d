// Undoes layout inside values: line breaks, wide or unusual separators, letters apart, and words joined to a value. Only
// forms that a value can have are changed, so that tables, dates, sizes and versions stay as they are.
import { getCountrySpecifications, isValidIBAN } from 'ibantools'
import type { MappedText, Patch } from './mapped-text.ts'
import { apart, nextLineOf } from './rows.ts'

/**
 * Returns the patches that write values as detectors expect them. The patches are ordered and disjoint.
 * @param view the mapping of the text, if it is a view
 */
export function layoutPatches(text: string, view?: MappedText): Patch[] {
  const patches: Patch[] = []
  for (let at = nextDigit(text, 0); at < text.length; ) {
    const apartFromHere = spacedPatch(text, at)
    const run = apartFromHere ?? readRun(text, at)
    if ('text' in run) patches.push(run)
    else if (run.digits >= LEAST_DIGITS) patches.push(...runPatches(text, run, view))
    at = nextDigit(text, Math.max(run.end, at + 1))
  }
  for (let at = text.indexOf('@'); at >= 0; at = text.indexOf('@', at + 1)) {
    const spaced = spacedPatch(text, at)
    patches.push(...(spaced ? [spaced] : addressPatches(text, at)))
  }
  if (BRACKET_AT.test(text)) patches.push(...bracketPatches(text))
  return apart(patches)
}

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39
const isLetter = (code: number): boolean => (code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a
const isAlphanumeric = (code: number): boolean => isDigit(code) || isLetter(code)

function nextDigit(text: string, from: number): number {
  let at = from
  while (at < text.length && !isDigit(text.charCodeAt(at))) at++
  return at
}

const LEAST_DIGITS = 9
const MOST_GROUPS = 48
const SEPARATORS = new Set(Array.from(' \t.-_/·•*', (char) => char.charCodeAt(0)))
const MOST_SEPARATORS = 3

type Group = { start: number; end: number }
/** Groups of letters and digits with at least one digit each, and separators between them. */
type Run = { groups: Group[]; end: number; digits: number }

/** Reads the run whose first digit is at `first`. The run begins with the word that contains this digit. */
function readRun(text: string, first: number): Run {
  let start = first
  while (start > 0 && first - start < 24 && isAlphanumeric(text.charCodeAt(start - 1))) start--
  const groups: Group[] = []
  let digits = 0
  let at = start
  let end = first
  while (groups.length < MOST_GROUPS) {
    const from = at
    let own = 0
    while (isAlphanumeric(text.charCodeAt(at))) {
      if (isDigit(text.charCodeAt(at))) own++
      at++
    }
    if (own === 0 || at - from > MOST_GROUP_CHARS) break
    groups.push({ start: from, end: at })
    digits += own
    end = at
    const next = separatorEnd(text, at)
    if (next === at || !isAlphanumeric(text.charCodeAt(next))) break
    at = next
  }
  return { groups, end: Math.max(end, at), digits }
}

const MOST_GROUP_CHARS = 64

/** Returns the end of the separator: up to three characters, or a line break with what leads the next line. */
function separatorEnd(text: string, at: number): number {
  let end = at
  while (end - at < MOST_SEPARATORS && SEPARATORS.has(text.charCodeAt(end))) end++
  return nextLineOf(text, end) ?? end
}

/** The forms of card numbers, as printed on cards. A plain number has one group. */
const CARD_FORMS = [/^4,4,4,4(?:,[123])?$/, /^4,6,[45]$/, /^1[3-9]$/]
const SSN_FORM = '3,2,4'
const MOST_LINES = 4

function runPatches(text: string, { groups }: Run, view: MappedText | undefined): Patch[] {
  for (let from = 0; from < groups.length; from++) {
    const iban = ibanPatches(text, groups, from)
    if (iban) return iban
  }
  for (let from = 0; from < groups.length; from++) {
    for (const to of lastGroups(groups, from)) {
      const number = numberPatches(text, groups, from, to, view)
      if (number) return number
    }
  }
  return []
}

/** Returns the last groups that a number may have which begins with the group `from`, the farthest first. */
const lastGroups = (groups: readonly Group[], from: number): number[] =>
  Array.from({ length: Math.min(MOST_CARD_GROUPS, groups.length - from) }, (_, at) => from + at).reverse()
const MOST_CARD_GROUPS = 6

const NOT_DIGIT = /\D/
const LETTERS_AROUND = /^([A-Za-z]*)(\d+)([A-Za-z]*)$/

/** Returns the patches for the number of these groups, or undefined if the groups are no card or social security number. */
function numberPatches(
  text: string,
  groups: readonly Group[],
  from: number,
  to: number,
  view: MappedText | undefined,
): Patch[] | undefined {
  const words = groups.slice(from, to + 1).map(({ start, end }) => text.slice(start, end))
  // Only the first and the last group may have letters, which then belong to a word that is joined to the number.
  if (words.slice(1, -1).some((word) => NOT_DIGIT.test(word))) return undefined
  const [, before = '', firstDigits = '', afterFirst = ''] = LETTERS_AROUND.exec(words[0] ?? '') ?? []
  const [, beforeLast = '', lastDigits = '', after = ''] = LETTERS_AROUND.exec(words.at(-1) ?? '') ?? []
  if (firstDigits === '' || lastDigits === '') return undefined
  if (words.length > 1 && (afterFirst !== '' || beforeLast !== '')) return undefined
  const digits = words.length === 1 ? [firstDigits] : [firstDigits, ...words.slice(1, -1), lastDigits]
  const separators = separatorsOf(text, groups, from, to)
  const breaks = separators.filter((separator) => separator.includes('\n')).length
  if (breaks >= MOST_LINES || (breaks > 0 && isColumn(text, groups, from, to))) return undefined
  const shapes = shapesOf(digits, separators)
  const isSsn = shapes.includes(SSN_FORM)
  if (!isSsn && !shapes.some((shape) => CARD_FORMS.some((form) => form.test(shape)))) return undefined
  const written = isSsn ? ssn(digits.join('')) : digits.join('')
  const start = (groups[from] as Group).start + before.length
  const end = (groups[to] as Group).end - after.length
  // Three groups with plain blanks are usually no social security number. With other blanks, they were written with care.
  const isUsual = separators.every((one) => one === separators[0] && (one === ' ' || one === '-'))
  const isRewritten = isSsn && text.slice(start, end) !== written && view?.isChanged(start, end)
  // A version goes on after its third number.
  if (isSsn && GOES_ON.test(text.slice(end, end + 2))) return undefined
  const shown = isUsual && !isRewritten ? text.slice(start, end) : written
  return changed(text, apartFromWords(text, aligned(text, start, end, shown)))
}

/** Returns the patch, or none if it would change nothing. */
const changed = (text: string, patch: Patch): Patch[] =>
  patch.text === text.slice(patch.start, patch.end) ? [] : [patch]

const ssn = (digits: string): string => `${digits.slice(0, 3)}-${digits.slice(3, 5)}-${digits.slice(5)}`

const JOINS = /\w/
const GOES_ON = /^[-.]\w/

/** Adds blanks where a letter or an underscore joins the value to the text before or after it. */
function apartFromWords(text: string, patch: Patch): Patch {
  const { start, end, starts = [], ends = [] } = patch
  const before = JOINS.test(text.charAt(start - 1))
  const after = JOINS.test(text.charAt(end))
  if (!before && !after) return patch
  return {
    start,
    end,
    text: `${before ? ' ' : ''}${patch.text}${after ? ' ' : ''}`,
    starts: [...(before ? [start] : []), ...starts, ...(after ? [end] : [])],
    ends: [...(before ? [start] : []), ...ends, ...(after ? [end] : [])],
  }
}

const separatorsOf = (text: string, groups: readonly Group[], from: number, to: number): string[] =>
  groups.slice(from, to).map(({ end }, at) => text.slice(end, (groups[from + at + 1] as Group).start))

/**
 * Returns the lengths of the groups, once with each line break as a separator, and once with the groups around each line
 * break joined.
 */
function shapesOf(digits: readonly string[], separators: readonly string[]): string[] {
  const asIs = digits.map(({ length }) => length)
  const joined: number[] = []
  for (const [at, length] of asIs.entries()) {
    if (at > 0 && separators[at - 1]?.trim() === '' && separators[at - 1]?.includes('\n')) {
      joined[joined.length - 1] = (joined.at(-1) ?? 0) + length
    } else joined.push(length)
  }
  return [asIs.join(), joined.join()]
}

/** Whether the lines around the number have groups of the same length, as the lines of a table have. */
function isColumn(text: string, groups: readonly Group[], from: number, to: number): boolean {
  const lengthOf = (at: number) => (groups[at] ? (groups[at] as Group).end - (groups[at] as Group).start : 0)
  const breaksAfter = (at: number) =>
    groups[at + 1] !== undefined &&
    text.slice((groups[at] as Group).end, (groups[at + 1] as Group).start).includes('\n')
  const isLike = (one: number, other: number) => lengthOf(one) === lengthOf(other)
  return (from > 0 && breaksAfter(from - 1) && isLike(from - 1, from)) || (breaksAfter(to) && isLike(to, to + 1))
}

/** Returns the patch that writes a range as `written`. The letters and digits of both are the same. */
function aligned(text: string, start: number, end: number, written: string): Patch {
  const starts: number[] = []
  const ends: number[] = []
  let at = start
  for (const char of written) {
    const isOwn = isAlphanumeric(char.charCodeAt(0))
    while (isOwn && at < end && text.charAt(at) !== char) at++
    starts.push(isOwn ? at : Math.max(start, at - 1))
    ends.push(isOwn ? at + 1 : Math.max(start, at))
    if (isOwn) at++
  }
  return { start, end, text: written, starts, ends }
}

const IBAN_CHARS: ReadonlyMap<string, number> = new Map(
  Object.entries(getCountrySpecifications()).flatMap(([country, { chars }]) => (chars ? [[country, chars]] : [])),
)
/** The first group of an IBAN: a country and two check digits. The word before it may be joined to it. */
const IBAN_HEAD = /([A-Za-z]{2})\d{2}[A-Za-z0-9]*$/

/** Returns the patches for the IBAN that begins in the group `from`. Returns undefined if there is none. */
function ibanPatches(text: string, groups: readonly Group[], from: number): Patch[] | undefined {
  const first = groups[from] as Group
  const head = IBAN_HEAD.exec(text.slice(first.start, first.end))
  const chars = IBAN_CHARS.get(head?.[1]?.toUpperCase() ?? '')
  if (head === null || chars === undefined) return undefined
  const start = first.start + head.index
  let compact = ''
  let end = start
  let breaks = 0
  for (let at = from; at < groups.length && compact.length < chars; at++) {
    const { start: begin, end: stop } = groups[at] as Group
    if (text.slice(end, begin).includes('\n')) breaks++
    const own = text.slice(Math.max(start, begin), Math.min(stop, Math.max(start, begin) + chars - compact.length))
    compact += own
    end = Math.max(start, begin) + own.length
  }
  if (compact.length < chars || breaks >= MOST_LINES || !isValidIBAN(compact.toUpperCase())) return undefined
  // Detectors read single blanks between groups, so most of these numbers need no change.
  const written = text.slice(start, end)
  const shown = USUAL_IBAN.test(written) ? written : compact
  return changed(text, apartFromWords(text, aligned(text, start, end, shown)))
}

const USUAL_IBAN = /^[A-Za-z0-9]+(?: [A-Za-z0-9]+)*$/

const LEAST_APART = 9
const APART = new Set([' ', '.', '-', '_', '|', '*'])

/**
 * Returns the patch that joins characters which stand apart, around the character `at`: `4 1 1 1`. The same separator is
 * between all of them.
 */
function spacedPatch(text: string, at: number): Patch | undefined {
  const separator = text.charAt(at + 1)
  if (text.charAt(at + 3) !== separator || !APART.has(separator)) return undefined
  const isApart = (index: number) =>
    text.charAt(index) === separator && /\S/.test(text.charAt(index - 1)) && /\S/.test(text.charAt(index + 1))
  const isBorder = (index: number) => text.charAt(index) === separator || /[\s.,;]/.test(text.charAt(index))
  let start = at
  while (start >= 2 && isApart(start - 1) && (start === 2 || isBorder(start - 3))) start -= 2
  let end = at + 1
  while (isApart(end) && (end + 2 >= text.length || isBorder(end + 2))) end += 2
  const chars = (end - start + 1) / 2
  if (chars < LEAST_APART) return undefined
  const starts = Array.from({ length: chars }, (_, index) => start + 2 * index)
  return {
    start,
    end,
    text: starts.map((index) => text.charAt(index)).join(''),
    starts,
    ends: starts.map((index) => index + 1),
  }
}

const isDomain = (code: number): boolean => isAlphanumeric(code) || code === 0x2d || code === 0x2e
const isLocal = (code: number): boolean => isDomain(code) || code === 0x5f || code === 0x2b
const MOST_ADDRESS_CHARS = 128
const SEVERAL_PARTS = /[._\d]/

/** Returns the patches that join an e-mail address which is broken over lines, or has blanks around its `@`. */
function addressPatches(text: string, at: number): Patch[] {
  const [before, after] = [blanksBefore(text, at), blanksAfter(text, at + 1)]
  const isSplit = before < at || after > at + 1
  const domain = domainFrom(text, after)
  if (!isLocal(text.charCodeAt(before - 1)) || domain === undefined) return []
  const patches: Patch[] = []
  if (isSplit) {
    const breaks = text.slice(before, after).includes('\n')
    let local = before
    while (local > 0 && before - local < 64 && isLocal(text.charCodeAt(local - 1))) local--
    // "meet @ example.com" is no address, but "ada.l @ example.com" is one.
    if (!breaks && !SEVERAL_PARTS.test(text.slice(local, before))) return []
    if (before < at) patches.push({ start: before, end: at, text: '' })
    if (after > at + 1) patches.push({ start: at + 1, end: after, text: '' })
  }
  return [...patches, ...domain]
}

const BLANK_CHARS = 8
const isBlank = (code: number): boolean =>
  code === 0x20 || code === 0x09 || code === 0x0a || code === 0x0d || code === 0x3e

function blanksBefore(text: string, at: number): number {
  let from = at
  while (from > 0 && at - from < BLANK_CHARS && isBlank(text.charCodeAt(from - 1))) from--
  return from
}

function blanksAfter(text: string, at: number): number {
  let to = at
  while (to < text.length && to - at < BLANK_CHARS && isBlank(text.charCodeAt(to))) to++
  return to
}

const LABEL_ON_NEXT_LINE = /^[a-z0-9-]*\.?[a-z0-9-]+(?:\.[a-z]{2,24})?(?![A-Za-z])/

/**
 * Returns the patches that join the lines of a domain. Returns undefined if no domain begins here. A domain goes on in
 * the next line if its first label is incomplete, or if its line ends with a hyphen or a dot.
 */
function domainFrom(text: string, from: number): Patch[] | undefined {
  let end = from
  while (end - from < MOST_ADDRESS_CHARS && isDomain(text.charCodeAt(end))) end++
  if (end === from) return undefined
  const written = text.slice(from, end)
  const next = nextLineOf(text, end)
  if (next === undefined) return written.includes('.') ? [] : undefined
  const rest = LABEL_ON_NEXT_LINE.exec(text.slice(next, next + 64))?.[0]
  const isCut = !written.includes('.') || (written.endsWith('.') && written.indexOf('.') === written.length - 1)
  const isHyphenated = written.endsWith('-')
  if (rest === undefined || !(isCut || isHyphenated) || !`${written}${rest}`.slice(0, -2).includes('.')) {
    return written.includes('.') ? [] : undefined
  }
  return [{ start: end, end: next, text: '' }]
}

const BRACKET_AT = /[[({] ?(?:at|AT) ?[\])}]/
const BRACKETED = /[ \t]{0,2}[[({] ?(at|dot|AT|DOT) ?[\])}][ \t]{0,2}/g

/** Returns the patches for `(at)` and `[dot]`. */
const bracketPatches = (text: string): Patch[] =>
  Array.from(text.matchAll(BRACKETED), ({ 0: whole, 1: word = '', index }) => ({
    start: index,
    end: index + whole.length,
    text: word.toLowerCase() === 'at' ? '@' : '.',
  }))
