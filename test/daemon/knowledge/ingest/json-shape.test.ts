import fc from 'fast-check'
import { expect, test } from 'vitest'
import { jsonShape } from '../../../../src/daemon/knowledge/ingest/json-shape.ts'

const depthOf = (value: unknown): number =>
  typeof value === 'object' && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0
const countOf = (value: unknown): number =>
  1 +
  (typeof value === 'object' && value !== null ? Object.values(value).reduce((sum, one) => sum + countOf(one), 0) : 0)

test('for any JSON the depth equals that of the parsed value, and the value count is never lower', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), fc.boolean(), (json, isIndented) => {
      const value = JSON.parse(json)
      const shape = jsonShape(isIndented ? JSON.stringify(value, null, 2) : json)
      expect(shape.depth).toBe(depthOf(value))
      expect(shape.values).toBeGreaterThanOrEqual(countOf(value))
    }),
  )
})

test('brackets, commas and quotation marks in strings do not count', () => {
  expect(jsonShape(JSON.stringify(['[[[{{{,,,', '\\"[', '"]']))).toEqual({ depth: 1, values: 4 })
})

test('invalid JSON has a shape as well', () => {
  expect(jsonShape(']]]')).toEqual({ depth: 0, values: 1 })
  expect(jsonShape('"[[')).toEqual({ depth: 0, values: 1 })
  expect(jsonShape('['.repeat(1_000_000)).depth).toBe(1_000_000)
})
