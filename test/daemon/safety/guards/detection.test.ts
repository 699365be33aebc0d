import { expect, test } from 'vitest'
import { remembering } from '../../../../src/daemon/safety/guards/detection.ts'

test('a repeated text is not scanned again, and any other is', () => {
  const readTexts: string[] = []
  const read = remembering((text) => {
    readTexts.push(text)
    return text.length
  })
  expect([read('one'), read('one'), read('three'), read('one')]).toEqual([3, 3, 5, 3])
  expect(readTexts).toEqual(['one', 'three', 'one'])
})

test('a scan result is dropped as soon as its caller is done', async () => {
  let reads = 0
  const read = remembering(() => ++reads)
  expect([read('one'), read('one')]).toEqual([1, 1])
  await Promise.resolve()
  expect(read('one')).toBe(2)
})
