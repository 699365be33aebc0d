import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  decodePage,
  encodePage,
  findInPage,
  type Postings,
  pageCountOf,
  pageOf,
} from '../../../../src/daemon/knowledge/indexes/postings.ts'

const postings = fc
  .uniqueArray(fc.oneof(fc.nat(300), fc.nat(20_000)), { minLength: 1, maxLength: 40 })
  .chain((ordinals) =>
    fc
      .array(fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 70_000 })), {
        minLength: ordinals.length,
        maxLength: ordinals.length,
      })
      .map((frequencies) =>
        ordinals.sort((one, other) => one - other).flatMap((ordinal, at) => [ordinal, frequencies[at] ?? 1]),
      ),
  )
/** Without names that are special members of JavaScript objects. */
const page = fc.dictionary(
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }).filter((term) => term !== '__proto__'),
  postings,
  {
    noNullPrototype: true,
  },
)

test('a page returns the stored terms and postings', () => {
  fc.assert(
    fc.property(page, (terms) => {
      expect(Object.fromEntries(decodePage(encodePage(Object.entries(terms))))).toEqual(terms)
    }),
  )
})

test('a term is found in its page, and a missing one is not', () => {
  fc.assert(
    fc.property(page, (terms) => {
      const names = [...Object.keys(terms), 'not there', 'nor this']
      const wanted = names.map((name, id) => ({ id, name: Buffer.from(name) }))
      const found: Record<string, Postings> = {}
      findInPage(encodePage(Object.entries(terms)), wanted, (id, postings) => {
        found[names[id] ?? ''] = postings
      })
      expect(found).toEqual(terms)
    }),
  )
})

test('a truncated page is an error, never a smaller index', () => {
  const whole = encodePage([['term', [1, 300, 5_000, 1]]])
  expect(() => [...decodePage(whole.subarray(0, whole.length - 1))]).toThrow('end in the middle')
})

test('terms are spread over the pages of a segment', () => {
  const pages = pageCountOf(1_000)
  expect(pages).toBe(128)
  const counts = new Array<number>(pages).fill(0)
  for (let at = 0; at < 12_800; at++) {
    const page = pageOf(`term${at}`, pages)
    counts[page] = (counts[page] ?? 0) + 1
  }
  expect(Math.max(...counts)).toBeLessThan(200)
  expect(Math.min(...counts)).toBeGreaterThan(30)
})

test('a term of every nth page of a large segment is in the corresponding page of a small one', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 20 }), fc.nat(10), fc.nat(10), (term, one, other) => {
      const few = 2 ** Math.min(one, other)
      expect(pageOf(term, 2 ** Math.max(one, other)) % few).toBe(pageOf(term, few))
    }),
  )
})
