import { expect, test } from 'vitest'
import { remembering } from '../../../src/daemon/guards/detection.ts'

test('a text that is asked about again is not read again, and any other is', () => {
  const readTexts: string[] = []
  const read = remembering((text) => {
    readTexts.push(text)
    return text.length
  })
  expect([read('one'), read('one'), read('three'), read('one')]).toEqual([3, 3, 5, 3])
  expect(readTexts).toEqual(['one', 'three', 'one'])
})
