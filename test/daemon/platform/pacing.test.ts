import { expect, test } from 'vitest'
import { createPacer, PACE_MS } from '../../../src/daemon/platform/pacing.ts'

test('work continues until its time slice ends, then other work runs', async () => {
  let nowMs = 0
  const pacer = createPacer(() => nowMs)
  nowMs += PACE_MS - 1
  expect(pacer.turn()).toBeUndefined()

  nowMs += 1
  let isOthersTurn = false
  setImmediate(() => {
    isOthersTurn = true
  })
  await pacer.turn()
  expect(isOthersTurn).toBe(true)

  expect(pacer.turn()).toBeUndefined()
})
