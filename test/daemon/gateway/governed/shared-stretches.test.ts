import { expect, test } from 'vitest'
import { sharedStretches } from '../../../../src/daemon/gateway/governed/shared-stretches.ts'

const bytes = (text: string) => Buffer.from(text)

/** The characters of `text` that belong to a stretch. */
function covered(text: string, other: string, least: number): string {
  const marks = [...text].map(() => '.')
  for (const [start, end] of sharedStretches(bytes(text), bytes(other), least)) {
    for (let at = start; at < end; at++) marks[at] = text[at] ?? ''
  }
  return marks.join('')
}

test('finds every stretch of at least so many bytes', () => {
  expect(covered('one two three', 'say two three four', 4)).toBe('... two three')
  expect(covered('abcdefgh', 'xxcdefxx', 4)).toBe('..cdef..')
  expect(covered('abcdefgh', 'xxcdexx', 4)).toBe('........')
  expect(covered('abc', 'abcdef', 4)).toBe('...')
  expect(covered('aaaaaaaa', 'aaaa', 4)).toBe('aaaaaaaa')
  expect(covered('abcdabcd', 'abcd', 4)).toBe('abcdabcd')
})

test('finds the same as a search of each stretch, in random texts', () => {
  let seed = 1
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
    return (seed >>> 16) % below
  }
  const randomText = (length: number) => Array.from({ length }, () => 'abc'[random(3)]).join('')
  for (let round = 0; round < 300; round++) {
    const [text, other, least] = [randomText(40), randomText(200), 2 + random(8)]
    const expected = [...text].map(() => '.')
    for (let at = 0; at + least <= text.length; at++) {
      if (!other.includes(text.slice(at, at + least))) continue
      for (let offset = at; offset < at + least; offset++) expected[offset] = text[offset] ?? ''
    }
    expect(covered(text, other, least)).toBe(expected.join(''))
  }
})
