import fc from 'fast-check'
import { expect, test } from 'vitest'
import { runToEnd } from '../../../../src/daemon/platform/pacing.ts'
import { countingTokens, countTokens } from '../../../../src/daemon/platform/text/tokens.ts'

test('only the empty text has zero tokens', () => {
  expect(countTokens('')).toBe(0)
  fc.assert(fc.property(fc.string({ unit: 'binary', minLength: 1 }), (text) => countTokens(text) >= 1))
  expect(countTokens(' ')).toBe(1)
})

test('a sentence has about as many tokens as words', () => {
  expect(countTokens('The gateway answers with retrieval.')).toBeGreaterThanOrEqual(5)
  expect(countTokens('The gateway answers with retrieval.')).toBeLessThanOrEqual(10)
})

test('a long text is counted in pieces, between which other work runs, with the same count', () => {
  const word = fc.constantFrom('word', 'Langes', 'números', '语言', '日本。', '1,234.5', 'a_b', '  ', '\n\n', '()', '…')
  fc.assert(
    fc.property(fc.array(word, { minLength: 1 }), (words) => {
      const text = `${words.join(' ')} `.repeat(Math.ceil(40_000 / (words.join(' ').length + 1)))
      const work = countingTokens(text)
      let turns = 0
      let step = work.next()
      for (; !step.done; step = work.next()) turns++
      expect(turns).toBeGreaterThanOrEqual(4)
      expect(Math.abs(step.value - countTokens(text))).toBeLessThanOrEqual(turns)
    }),
    { numRuns: 50 },
  )
  const prose = 'The gateway answers, with retrieval.\n'.repeat(2_000)
  expect(runToEnd(countingTokens(prose))).toBe(countTokens(prose))
  const hex = 'f00d'.repeat(20_000)
  expect(Math.abs(runToEnd(countingTokens(hex)) - countTokens(hex))).toBeLessThanOrEqual(10)
})
