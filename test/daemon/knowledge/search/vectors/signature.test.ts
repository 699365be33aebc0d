import { hash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { signatureDistances, signatureOf } from '../../../../../src/daemon/knowledge/search/vectors/signature.ts'
import { cosine, toUnitVector } from '../../../../../src/daemon/knowledge/search/vectors/stored-vector.ts'
import type { UnitVector } from '../../../../../src/daemon/knowledge/search/vectors/unit-vector.ts'
import { createRandom, randomVector } from './vector-rows.ts'

test('stored signatures stay compatible: the signature of a vector never changes', () => {
  const made = [8, 384, 1536, 3000].map((length) => {
    const vector = toUnitVector(Array.from({ length }, (_, at) => ((at * 37) % 101) - 50)) as UnitVector
    return hash('sha256', signatureOf(vector)).slice(0, 12)
  })
  expect(made).toEqual(['69bc12dd3242', 'd3d493a386ec', 'f59f5f68e174', '198f45175e95'])
})

test.each([
  [1, 256],
  [64, 256],
  [384, 256],
  [1_024, 256],
  [1_536, 256],
  [3_072, 512],
])('a vector of %i dimensions has a signature of %i bytes', (dimensions, bytes) => {
  expect(signatureOf(randomVector(createRandom(1), dimensions))).toHaveLength(bytes)
})

test('the share of different bits approximates the angle as a share of a half turn', () => {
  const random = createRandom(3)
  for (const dimensions of [16, 100, 384, 1_024]) {
    for (const share of [0, 0.2, 0.5, 1, 3]) {
      const one = randomVector(random, dimensions)
      const noise = randomVector(random, dimensions)
      const other = toUnitVector(Array.from(one, (number, at) => number + share * (noise[at] ?? 0))) as UnitVector
      const angle = Math.acos(Math.min(1, cosine(one, other))) / Math.PI
      const [distance = 0] = signatureDistances(signatureOf(other), signatureOf(one))
      // 2,048 samples: three standard deviations are at most 0.034, and the random error of rotations is slightly
      // smaller.
      expect(Math.abs(distance / 2_048 - angle)).toBeLessThan(0.05)
    }
  }
})

test('distances count different bits of each signature, at any offset in a buffer', () => {
  const signature = fc.uint8Array({ minLength: 8, maxLength: 8 })
  fc.assert(
    fc.property(signature, fc.array(signature, { maxLength: 5 }), fc.nat(3), (one, others, offset) => {
      const all = Buffer.concat([Buffer.alloc(offset), ...others]).subarray(offset)
      const bits = (byte: number) => byte.toString(2).replaceAll('0', '').length
      const expected = others.map((other) => other.reduce((sum, byte, at) => sum + bits(byte ^ (one[at] ?? 0)), 0))
      expect([...signatureDistances(all, Buffer.from(one))]).toEqual(expected)
    }),
  )
})
