import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createWordSearch } from '../../../../../src/daemon/safety/guards/dlp/word-search.ts'
import { expectIncremental } from '../incremental.ts'

const search = (words: string[], options: { caseSensitive?: boolean; wholeWords?: boolean } = {}) =>
  createWordSearch(words, { type: 'words', ...options })
const found = (text: string, words: string[], options = {}) =>
  search(words, options)
    .find(text)
    .map(({ start, end }) => text.slice(start, end))

describe('a search for many words', () => {
  test('finds separate words, in any case', () => {
    expect(found('Falcon, FALCON and falconry', ['falcon'])).toEqual(['Falcon', 'FALCON'])
    expect(found('Straße STRASSE', ['straße'])).toEqual(['Straße'])
  })

  test('finds them anywhere, or only in exact case, on request', () => {
    expect(found('falconry', ['falcon'], { wholeWords: false })).toEqual(['falcon'])
    expect(found('Falcon falcon', ['falcon'], { caseSensitive: true })).toEqual(['falcon'])
  })

  test('of overlapping words takes the first and longest', () => {
    expect(found('project falcon nine', ['falcon', 'project falcon', 'falcon nine'])).toEqual(['project falcon'])
    expect(found('abcd', ['bc', 'abcd', 'ab'], { wholeWords: false })).toEqual(['abcd'])
  })

  test('a word inside a longer partial match is still found', () => {
    expect(found('abce', ['bc', 'abcd'], { wholeWords: false })).toEqual(['bc'])
  })

  test('scripts without spaces have no word boundaries', () => {
    expect(found('これは社外秘です', ['社外秘'])).toEqual(['社外秘'])
  })

  test('keeps the offsets of the text when lower case changes its length', () => {
    expect(found('İİ falcon', ['falcon'])).toEqual(['falcon'])
  })

  test('matches a search for each word alone, also in pieces', () => {
    const word = fc
      .string({ unit: fc.constantFrom('a', 'b', 'c', ' '), minLength: 1, maxLength: 4 })
      .filter((it) => it.trim() === it && it !== '')
    const text = fc.string({ unit: fc.constantFrom('a', 'b', 'c', ' ', 'A', '.'), maxLength: 24 })
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 5 }), text, fc.boolean(), (words, hay, wholeWords) => {
        const detector = search(words, { wholeWords })
        expect(detector.find(hay).map(({ start, end }) => [start, end])).toEqual(naive(hay, words, wholeWords))
        expectIncremental(detector, hay)
      }),
      // A word that ends where a longer one ends, which overlaps another.
      { numRuns: 150, examples: [[['ab', 'bc', 'c'], 'abc', false]] },
    )
  })
})

function naive(text: string, words: string[], wholeWords: boolean): [number, number][] {
  const all: [number, number][] = []
  const isLetter = (char: string | undefined) => char !== undefined && /[a-z]/i.test(char)
  for (let start = 0; start < text.length; start += 1) {
    for (const word of words) {
      const end = start + word.length
      if (text.slice(start, end).toLowerCase() !== word) continue
      const isWhole = !isLetter(text[start - 1]) && !isLetter(text[end])
      if (!wholeWords || isWhole) all.push([start, end])
    }
  }
  all.sort(([start, end], [other, otherEnd]) => start - other || otherEnd - end)
  const kept: [number, number][] = []
  for (const one of all) if (one[0] >= (kept.at(-1)?.[1] ?? 0)) kept.push(one)
  return kept
}
