import { expect, test } from 'vitest'
import { ProviderError } from '../../../../../src/daemon/models/provider.ts'
import { toReranked } from '../../../../../src/daemon/models/providers/openai/rerank.ts'

test('indexes and scores are read unchanged, whatever else a result contains', () => {
  const results = [
    { index: 1, relevance_score: 0.9, document: { text: 'b' } },
    { index: 0, relevance_score: -3.2 },
  ]
  expect(toReranked({ id: 'x', results, usage: { total_tokens: 3 } }, 2)).toEqual([
    { index: 1, score: 0.9 },
    { index: 0, score: -3.2 },
  ])
})

test.each([
  ['is no object', []],
  ['reports an error', { error: { message: 'busy' } }],
  ['has no results', { results: [] }],
  ['names a document that was not sent', { results: [{ index: 2, relevance_score: 1 }] }],
  ['names no whole place', { results: [{ index: 0.5, relevance_score: 1 }] }],
  [
    'names one twice',
    {
      results: [
        { index: 0, relevance_score: 1 },
        { index: 0, relevance_score: 0 },
      ],
    },
  ],
  ['has a score that is no number', { results: [{ index: 0, relevance_score: 'high' }] }],
])('an answer that %s is a failure of the provider', (_, body) => {
  expect(() => toReranked(body, 2)).toThrow(ProviderError)
})
