import { expect, test } from 'vitest'
import { allowsIndex, allowsModel } from '../../src/shared/allowlists.ts'

test('an empty list restricts nothing', () => {
  expect([allowsModel([], 'a/b'), allowsIndex([], 'handbook')]).toEqual([true, true])
})

test('models are allowed by their whole id or by their provider', () => {
  const allowed = ['openai/gpt-5', 'groq/*']
  const usable = ['openai/gpt-5', 'groq/any', 'groq/any/thing', 'groq/*']
  const others = ['openai/gpt-5-mini', 'openai/gpt', 'openai/*', 'groq', 'groqs/any', 'OPENAI/gpt-5', 'x/groq/any']
  expect([...usable, ...others].filter((id) => allowsModel(allowed, id))).toEqual(usable)
})

test('direct chat without an index is always allowed', () => {
  const names = ['handbook', 'Zero-Knowledge', 'Handbook', 'zero-knowledge', 'other']
  expect(names.filter((name) => allowsIndex(['handbook'], name))).toEqual(['handbook', 'Zero-Knowledge'])
})
