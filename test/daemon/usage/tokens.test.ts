import fc from 'fast-check'
import { expect, test } from 'vitest'
import { countTokens } from '../../../src/daemon/usage/tokens.ts'

test('only the empty text has no tokens', () => {
  expect(countTokens('')).toBe(0)
  fc.assert(fc.property(fc.string({ unit: 'binary', minLength: 1 }), (text) => countTokens(text) >= 1))
  expect(countTokens(' ')).toBe(1)
})

test('a sentence has about as many tokens as words', () => {
  expect(countTokens('The gateway answers with retrieval.')).toBeGreaterThanOrEqual(5)
  expect(countTokens('The gateway answers with retrieval.')).toBeLessThanOrEqual(10)
})
