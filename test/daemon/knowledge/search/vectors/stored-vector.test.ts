import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  cosine,
  fromArrayBytes,
  fromFloatBytes,
  toFloatBytes,
  toUnitVector,
} from '../../../../../src/daemon/knowledge/search/vectors/stored-vector.ts'

const numbers = fc
  .array(fc.double({ min: -1e6, max: 1e6, noNaN: true }), { minLength: 1, maxLength: 100 })
  .filter((all) => all.some((number) => Math.abs(number) > 1e-3))

test('a unit vector has length 1 and the same direction', () => {
  fc.assert(
    fc.property(numbers, (all) => {
      const unit = toUnitVector(all) as Float32Array
      expect(cosine(unit, unit)).toBeCloseTo(1, 5)
      for (const [at, number] of all.entries())
        if (Math.abs(unit[at] ?? 0) > 0) expect(Math.sign(unit[at] ?? 0)).toBe(Math.sign(number))
    }),
  )
})

test.each([[[]], [[0, 0, 0]], [[Number.NaN, 1]], [[Number.POSITIVE_INFINITY, 1]]])('%j has no direction', (all) => {
  expect(toUnitVector(all)).toBeUndefined()
})

test('numbers near the limits of the range are normalised to length 1 too', () => {
  for (const scale of [1e-300, 1e300]) {
    const unit = toUnitVector([3 * scale, 4 * scale])
    expect([...(unit ?? [])]).toEqual([Math.fround(0.6), Math.fround(0.8)])
  }
})

test('a vector is read from SQLite as it was stored', () => {
  fc.assert(
    fc.property(fc.float32Array({ minLength: 1, noNaN: true }), (vector) => {
      expect(fromFloatBytes(toFloatBytes(vector))).toEqual(vector)
    }),
  )
})

test('an array of PostgreSQL is read by its elements', () => {
  const head = Buffer.alloc(20)
  const element = (number: number) => {
    const bytes = Buffer.alloc(8)
    bytes.writeInt32BE(4)
    bytes.writeFloatBE(number, 4)
    return bytes
  }
  expect([...fromArrayBytes(Buffer.concat([head, element(0.5), element(-2)]))]).toEqual([0.5, -2])
})
