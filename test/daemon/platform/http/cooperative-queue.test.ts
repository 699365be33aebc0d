import { expect, test } from 'vitest'
import { CooperativeQueue } from '../../../../src/daemon/platform/http/cooperative-queue.ts'
import { createPacer, PACE_MS } from '../../../../src/daemon/platform/pacing.ts'

function* steps(name: string, done: string[]): Generator<void, string> {
  for (const step of [1, 2]) {
    done.push(`${name}${step}`)
    yield
  }
  return name
}

function* failingSteps(): Generator<void, never> {
  yield
  throw new Error('no JSON')
}

/** A pacer that yields after every step. */
const eachStep = () => {
  let nowMs = 0
  return createPacer(() => {
    nowMs += PACE_MS
    return nowMs
  })
}

test('work is done one item at a time, and the event loop turns between its steps', async () => {
  const [queue, done, { signal }] = [new CooperativeQueue(eachStep()), [] as string[], new AbortController()]
  let over = false
  const other = (async () => {
    while (!over) {
      done.push('-')
      await new Promise(setImmediate)
    }
  })()
  const answers = await Promise.all([queue.run(steps('a', done), signal), queue.run(steps('b', done), signal)])
  over = true
  await other
  expect(answers).toEqual(['a', 'b'])
  expect(done.join('')).toMatch(/^-+a1-+a2-+b1-+b2-*$/)
})

test('work that fails or whose client has disconnected admits the next item', async () => {
  const [queue, done, gone] = [new CooperativeQueue(eachStep()), [] as string[], new AbortController()]
  const failing = queue.run(failingSteps(), new AbortController().signal)
  const aborted = queue.run(steps('a', done), gone.signal)
  const last = queue.run(steps('b', done), new AbortController().signal)
  gone.abort(new Error('gone'))
  await expect(failing).rejects.toThrow('no JSON')
  await expect(aborted).rejects.toThrow('gone')
  expect(await last).toBe('b')
  expect(done).toEqual(['b1', 'b2'])
})
