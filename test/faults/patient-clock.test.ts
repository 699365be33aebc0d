import { expect, test } from 'vitest'
import { createPatientClock, REQUEST_MS } from './patient-clock.ts'

const turns = async (count: number) => {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}

test('time advances to the next timer of a request that only waits, and no further', async () => {
  const clock = createPatientClock()
  const fired: number[] = []
  const work = new Promise<void>((resolve) => {
    clock.after(300, () => {
      fired.push(clock.monotonic())
      clock.after(50, resolve)
    })
  })
  clock.after(400, () => fired.push(clock.monotonic()))
  await clock.during(work, () => true)
  expect([fired, clock.monotonic()]).toEqual([[300], 350])
})

test('time stands still while I/O is pending, and for background work', async () => {
  const clock = createPatientClock()
  let quiet = false
  let over = false
  const work = new Promise<void>((resolve) => void clock.after(REQUEST_MS, resolve))
  clock.after(REQUEST_MS + 1, () => expect.unreachable())
  const done = clock
    .during(work, () => quiet)
    .then(() => {
      over = true
    })
  await turns(100)
  expect([over, clock.monotonic()]).toEqual([false, 0])
  quiet = true
  await done
  expect(clock.monotonic()).toBe(REQUEST_MS)
})

test('a failure of the work is passed to the waiter', async () => {
  const failing = Promise.reject(new Error('broken'))
  await expect(createPatientClock().during(failing, () => true)).rejects.toThrow('broken')
})
