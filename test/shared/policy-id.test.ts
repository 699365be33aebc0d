import fc from 'fast-check'
import { expect, test } from 'vitest'
import { toPolicyId } from '../../src/shared/policy-id.ts'

test.each([
  ['Internal Strict', 'internal-strict'],
  ['  PCI   DSS ', 'pci-dss'],
  ['Gescha\u0308ftlich', 'gesch\u00e4ftlich'],
  ['R&D (EU)', 'r&d-(eu)'],
])('the policy "%s" has the id "%s"', (name, id) => {
  expect(toPolicyId(name)).toBe(id)
})

test('an id maps to itself', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (name) => {
      const id = toPolicyId(name)
      expect(toPolicyId(id)).toBe(id)
    }),
    { numRuns: 2_000 },
  )
})
