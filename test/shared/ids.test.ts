import fc from 'fast-check'
import { expect, test } from 'vitest'
import { newBundleId, newCommitId, newId } from '../../src/shared/ids.ts'

const moment = fc.integer({ min: 0, max: 2 ** 42 })

test('ids begin with their time', () => {
  fc.assert(
    fc.property(moment, (ms) => {
      const seconds = (Math.floor(ms / 1000) % 2 ** 32).toString(16).padStart(8, '0')
      expect(newId(ms)).toMatch(new RegExp(`^${seconds}[0-9a-f]{16}$`))
      expect(newCommitId(ms)).toMatch(new RegExp(`^${seconds}[0-9a-f]{24}$`))
      const hex = ms.toString(16).padStart(12, '0')
      const uuid = `${hex.slice(0, 8)}-${hex.slice(8)}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`
      expect(newBundleId(ms)).toMatch(new RegExp(`^jti-${uuid}$`))
    }),
  )
})

test('ids of one moment differ, and come in their order', () => {
  const ids = Array.from({ length: 1_000 }, () => newId(0))
  expect(new Set(ids).size).toBe(1_000)
  // The counter of 24 bits begins anywhere and may begin anew once.
  const falls = ids.filter((id, at) => at > 0 && id < (ids[at - 1] as string))
  expect(falls.length).toBeLessThanOrEqual(1)
})
