import fc from 'fast-check'
import { expect, test } from 'vitest'
import { newBundleId, newCommitId, newConversationId, newId, newRequestId } from '../../src/shared/ids.ts'

const moment = fc.integer({ min: 0, max: 2 ** 42 })

test('ids start with their time', () => {
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

test('ids of one moment differ, and ascend', () => {
  const ids = Array.from({ length: 1_000 }, () => newId(0))
  expect(new Set(ids).size).toBe(1_000)
  // The 24-bit counter starts anywhere and may wrap once.
  const falls = ids.filter((id, at) => at > 0 && id < (ids[at - 1] as string))
  expect(falls.length).toBeLessThanOrEqual(1)
})

test.each([
  ['req-', newRequestId],
  ['conv-', newConversationId],
])('%s ids start with their time, and the rest reveals neither their number nor the next one', (prefix, make) => {
  const ids = Array.from({ length: 4_096 }, () => make(1_767_225_600_000))
  expect(new Set(ids).size).toBe(ids.length)
  for (const id of ids) expect(id).toMatch(new RegExp(`^${prefix}6955b900[0-9a-f]{16}$`))
  const rest = ids.map((id) => Buffer.from(id.slice(-16), 'hex'))
  // Every bit is set in about half of the ids; the limits 1,728 and 2,368 are 10 standard deviations away for 4,096
  // ids.
  for (let bit = 0; bit < 64; bit++) {
    const ones = rest.filter((bytes) => (bytes[bit >> 3] ?? 0) & (1 << (bit & 7))).length
    expect([bit, ones > 1_728 && ones < 2_368]).toEqual([bit, true])
  }
  // Each is greater or less than the previous one, at random.
  const rises = ids.filter((id, at) => at > 0 && id > (ids[at - 1] ?? '')).length
  expect([rises > 1_728, rises < 2_368]).toEqual([true, true])
})
