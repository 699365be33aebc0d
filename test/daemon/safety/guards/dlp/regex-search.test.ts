import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { runToEnd } from '../../../../../src/daemon/platform/pacing.ts'
import {
  createRegexSearch,
  PatternRefused,
  type RegexSearchOptions,
} from '../../../../../src/daemon/safety/guards/dlp/regex-search.ts'
import { expectIncremental } from '../incremental.ts'

const search = (pattern: string, options: Partial<RegexSearchOptions> = {}) =>
  createRegexSearch(pattern, { type: 'rule', maxChars: 16, ...options })
const found = (pattern: string, text: string, options: Partial<RegexSearchOptions> = {}) =>
  search(pattern, options)
    .find(text)
    .map(({ start, end }) => text.slice(start, end))

/** Advances this many steps. */
const effortOf = (steps: number) => {
  let left = steps
  return {
    spend(taken: number): boolean {
      left -= taken
      return left >= 0
    },
  }
}
const findWith = (pattern: string, text: string, steps: number) =>
  runToEnd(search(pattern).slowly?.find(text, effortOf(steps)) ?? fail())
function fail(): never {
  throw new Error('a pattern is read slowly')
}

describe('patterns of customers', () => {
  test('are found in any case unless they say otherwise', () => {
    expect(found('prj-\\d{4}', 'PRJ-1234, prj-5678, prj-12')).toEqual(['PRJ-1234', 'prj-5678'])
    expect(found('prj-\\d{4}', 'PRJ-1234, prj-5678', { caseSensitive: true })).toEqual(['prj-5678'])
  })

  test('are limited in length, and a longer match does not hide the next one', () => {
    expect(found('x+', 'x'.repeat(40))).toEqual(['x'.repeat(16), 'x'.repeat(16), 'x'.repeat(8)])
    expect(found('a[^b]*b|a\\d', `a1${'.'.repeat(30)}b`)).toEqual(['a1'])
  })

  test('count only if the validator accepts them', () => {
    expect(found('\\d+', '12 34', { isValid: (value) => value === '34' })).toEqual(['34'])
  })

  test('are found at any position of a long text', () => {
    const at = [0, 1_022, 2_048, 4_095, 16_382, 32_768]
    let text = '.'.repeat(40_000)
    for (const start of at) text = `${text.slice(0, start)}${'k123'}${text.slice(start + 4)}`
    // With a fixed prefix, which is searched first, and without one.
    for (const pattern of ['k\\d{3}', '[jk]\\d{3}']) {
      const findings = search(pattern).find(text)
      expect(findings.map(({ start }) => start)).toEqual(at)
    }
  })

  test.each([
    ['x*', 'the empty text'],
    ['(?:)', 'the empty text'],
    ['\\b', 'the empty text'],
    ['^secret', 'word boundary'],
    ['secret$', 'word boundary'],
    ['\\Asecret', 'word boundary'],
    ['(a', 'a valid RE2 regular expression'],
    ['a(?=b)', 'a valid RE2 regular expression'],
    ['(a)\\1', 'a valid RE2 regular expression'],
    ['(?:a{1,100}){1,9}', 'has too many repetitions'],
    ['a'.repeat(501), 'at most 500'],
  ])('%j is rejected: %s', (pattern, reason) => {
    expect(() => search(pattern)).toThrow(PatternRefused)
    expect(() => search(pattern)).toThrow(reason)
  })

  test('anchor characters in brackets, or with a backslash, are literal', () => {
    expect(found('[^$]\\$\\^', 'a$^')).toEqual(['a$^'])
  })

  test('a text that exceeds the step limit counts as unread from that position on, in findings of bounded length', () => {
    const text = `k123${'.'.repeat(40_000)}`
    const findings = findWith('[jk]\\d{3}', text, 40_000)
    expect(findings[0]).toEqual({ start: 0, end: 4, type: 'rule', confidence: 1 })
    expect(findings.slice(1).every(({ type, confidence }) => type === 'unread' && confidence === 0)).toBe(true)
    expect(findings[1]?.start).toBeGreaterThan(1_000)
    expect(findWith('[jk]\\d{3}', text, 4_000_000)).toEqual(findings.slice(0, 1))
    expect(findings.at(-1)?.end).toBe(text.length)
    expect(Math.max(...findings.map(({ start, end }) => end - start))).toBeLessThanOrEqual(8_192)
    for (const [at, { start }] of findings.slice(2).entries()) expect(start).toBe(findings[at + 1]?.end)
  })

  test('findings are independent of time, and every step of a slow pattern counts', () => {
    const slow = '(?:(?:a|b|c|[a-z ]){1,20}){1,3}9'
    const text = 'the quick brown fox jumps '.repeat(100)
    let turns = 0
    const work = search(slow).slowly?.find(text, effortOf(Number.POSITIVE_INFINITY)) ?? fail()
    for (let step = work.next(); ; step = work.next()) {
      if (!step.done) turns++
      else {
        expect(step.value).toEqual([])
        break
      }
    }
    expect(turns).toBeGreaterThanOrEqual(text.length / 1_024)
    const size = 80
    expect(findWith(slow, text, text.length * size)).not.toEqual([])
    // Also if each match is too long, so that the search restarts at each character.
    const dense = findWith('a[^b]*b', `${'a'.repeat(4_000)}b`, 1_000_000)
    expect(dense.at(-1)).toMatchObject({ type: 'unread', end: 4_001 })
  })

  test('a search for open matches pauses often, even for the largest patterns', () => {
    const text = 'the quick brown fox jumps '.repeat(40)
    const wide = search('[a-z ]+(?:a?[a-z ]){1,40}9', { maxChars: 1_024 })
    // Everything is pending from the first character on, so only the step limit stops the search.
    const work = wide.slowly?.openFrom(text, undefined, text.length - 1_000) ?? fail()
    let turns = 0
    let step = work.next()
    for (; !step.done; step = work.next()) turns++
    expect(step.value).toBe(text.length - 1_000)
    expect(turns).toBeGreaterThanOrEqual(40)
  })

  test('in a stream only a possible match is held back', () => {
    expect(search('PRJ-\\d{4}').openFrom('a long text without any')).toBe('a long text without any'.length)
    expect(search('PRJ-\\d{4}').openFrom('a long text, prj')).toBe('a long text, '.length)
    expect(search('\\d{4}').openFrom('x'.repeat(100))).toBe(100)
    expect(search('\\d{4}').openFrom(`${'x'.repeat(100)}123`)).toBe(100)
    expect(search('[^b]{3,16}b').openFrom('x'.repeat(100))).toBe(100 - 16)
  })

  test('in pieces', () => {
    const patterns = ['ab+c', '[a-c]{2,5}', '\\bab\\b', 'a.*c', 'cab|ab', '(?:ab|a)(?:c|bcb)', 'b.', '[^a]b']
    const text = fc.string({ unit: fc.constantFrom('a', 'b', 'c', ' ', '😀', 'K'), maxLength: 40 })
    fc.assert(
      fc.property(fc.constantFrom(...patterns), text, fc.integer({ min: 1, max: 8 }), (pattern, hay, maxChars) => {
        expectIncremental(search(pattern, { maxChars }), hay)
      }),
      { numRuns: 200 },
    )
  })
})
