import fc from 'fast-check'
import { expect, test } from 'vitest'
import { needsRewrite, segmentsToMerge } from '../../../../src/daemon/knowledge/indexes/merge-plan.ts'
import { deletedOrdinals, renumber } from '../../../../src/daemon/knowledge/indexes/segment.ts'

test('for any sequence of documents, an index has few segments and writes each passage few times', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 200 }), { minLength: 1, maxLength: 400 }), (sizes) => {
      let segments: { id: string; passageCount: number }[] = []
      let written = 0
      for (const [at, passageCount] of sizes.entries()) {
        segments.push({ id: `${at}`, passageCount })
        for (let next = segmentsToMerge(segments); next !== undefined; next = segmentsToMerge(segments)) {
          expect(next).toHaveLength(8)
          const merged = next.reduce((sum, segment) => sum + segment.passageCount, 0)
          written += merged
          const taken = next
          segments = [
            ...segments.filter((segment) => !taken.includes(segment)),
            { id: `m${written}`, passageCount: merged },
          ]
        }
      }
      const passages = sizes.reduce((sum, size) => sum + size, 0)
      expect(segments.length).toBeLessThanOrEqual(4 * 7 + passages / 4096)
      expect(written).toBeLessThanOrEqual(passages * 5)
    }),
  )
})

const segment = (...ids: number[]) => ({ ids: Float64Array.from(ids), lengths: new Uint16Array(ids.length).fill(9) })

test('a segment is merged when more than a quarter of it is deleted', () => {
  const whole = segment(1, 2, 3, 4, 10, 11, 12, 13)
  expect(needsRewrite(whole, [{ first: 3, count: 2 }])).toBe(false)
  expect(needsRewrite(whole, [{ first: 3, count: 8 }])).toBe(true)
  expect(needsRewrite(whole, [{ first: 5, count: 5 }])).toBe(false)
})

test('deleted passages are found in a segment in any order', () => {
  const runs = fc.array(fc.tuple(fc.nat(5), fc.nat(5)), { maxLength: 12 }).map((steps) => {
    let next = 0
    return steps.map(([gap, count]) => {
      const first = next + gap
      next = first + count
      return { first, count }
    })
  })
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(80), { maxLength: 60 }), runs, (ids, gone) => {
      const expected = ids.map((id) => (gone.some(({ first, count }) => id >= first && id < first + count) ? 1 : 0))
      expect([...(deletedOrdinals(segment(...ids), gone) ?? ids.map(() => 0))]).toEqual(expected)
    }),
  )
})

test('passages are renumbered consecutively, without the deleted ones', () => {
  const { ordinals, passages } = renumber([segment(1, 2, 3), segment(7, 8)], [{ first: 2, count: 1 }])
  expect(ordinals.map((ofSegment) => [...ofSegment])).toEqual([
    [0, -1, 1],
    [2, 3],
  ])
  expect([...passages.ids]).toEqual([1, 3, 7, 8])
  expect(passages.lengths).toHaveLength(4)
})
