import { expect, test } from 'vitest'
import type { Match } from '../../../../../src/daemon/knowledge/search/search.ts'
import { inOrder } from '../../../../../src/daemon/knowledge/search/vectors/rerank.ts'

const match = (source: string): Match => ({
  ...{ score: 0.3, passageId: 1, documentId: 'd', source, title: '', position: 0, headings: '', body: '', page: null },
})
const MATCHES = [match('a'), match('b'), match('c')]

test('scores from 0 to 1 stay as they are, best first', () => {
  const reranked = [
    { index: 2, score: 0.1 },
    { index: 0, score: 0 },
    { index: 1, score: 1 },
  ]
  expect(inOrder(MATCHES, reranked).map(({ source, score }) => [source, score])).toEqual([
    ['b', 1],
    ['c', 0.1],
    ['a', 0],
  ])
})

test('results without a score follow the others, in their order', () => {
  const found = inOrder(
    [...MATCHES, match('d')],
    [
      { index: 2, score: 0.3 },
      { index: 1, score: 0.9 },
    ],
  )
  expect(found.map(({ source }) => source)).toEqual(['b', 'c', 'a', 'd'])
  const scores = found.map(({ score }) => score)
  expect(scores).toEqual([...scores].sort((one, other) => other - one))
  expect(new Set(scores).size).toBe(4)
  expect(Math.min(...scores)).toBeGreaterThan(0)
})

test('other scores keep their order and are mapped between 0 and 1, with 0 in the middle', () => {
  const reranked = [
    { index: 0, score: -8 },
    { index: 1, score: 0 },
    { index: 2, score: 5 },
  ]
  const found = inOrder(MATCHES, reranked)
  expect(found.map(({ source }) => source)).toEqual(['c', 'b', 'a'])
  expect(found[1]?.score).toBe(0.5)
  for (const { score } of found) expect(score > 0 && score < 1).toBe(true)
})
