import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fuseRankings } from '../../../../../src/daemon/knowledge/search/vectors/fusion.ts'

const ranking = fc.uniqueArray(fc.nat(40), { maxLength: 20 })
const constant = fc.integer({ min: 1, max: 200 })

test('first in all rankings scores 1, first in one of two and absent from the other a half', () => {
  expect(
    fuseRankings([
      ['a', 'b'],
      ['a', 'c'],
    ])[0],
  ).toEqual({ id: 'a', score: 1 })
  expect(fuseRankings([['a'], []])).toEqual([{ id: 'a', score: 0.5 }])
})

test('each position counts 61 / (60 + position), divided by the number of rankings', () => {
  const fused = new Map(
    fuseRankings([
      ['a', 'b', 'c'],
      ['c', 'a'],
    ]).map(({ id, score }) => [id, score]),
  )
  expect(fused.get('a')).toBeCloseTo((1 + 61 / 62) / 2, 12)
  expect(fused.get('b')).toBeCloseTo(61 / 62 / 2, 12)
  expect(fused.get('c')).toBeCloseTo((61 / 63 + 1) / 2, 12)
  expect([...fused.keys()]).toEqual(['a', 'c', 'b'])
})

test('the fusion contains every result of any ranking once, best first, with scores above 0 and up to 1', () => {
  fc.assert(
    fc.property(fc.array(ranking, { minLength: 1, maxLength: 4 }), constant, (rankings, k) => {
      const fused = fuseRankings(rankings, k)
      expect(new Set(fused.map(({ id }) => id))).toEqual(new Set(rankings.flat()))
      expect(fused).toHaveLength(new Set(rankings.flat()).size)
      for (const [at, { score }] of fused.entries()) {
        expect(score).toBeGreaterThan(0)
        expect(score).toBeLessThanOrEqual(at === 0 ? 1 : (fused[at - 1]?.score ?? 0))
      }
    }),
  )
})

test('equal rankings keep their order', () => {
  fc.assert(
    fc.property(ranking, fc.integer({ min: 1, max: 4 }), (one, count) => {
      expect(fuseRankings(Array.from({ length: count }, () => one)).map(({ id }) => id)).toEqual(one)
    }),
  )
})

test('a better position in one ranking never lowers a score', () => {
  fc.assert(
    fc.property(ranking, ranking, fc.nat(), fc.nat(), (one, other, from, to) => {
      fc.pre(one.length > 1)
      const at = from % one.length
      const place = to % (at + 1)
      const id = one[at] as number
      const raised = one.toSpliced(at, 1).toSpliced(place, 0, id)
      const scoreIn = (rankings: number[][]) => fuseRankings(rankings).find((found) => found.id === id)?.score ?? 0
      expect(scoreIn([raised, other])).toBeGreaterThanOrEqual(scoreIn([one, other]))
    }),
  )
})
