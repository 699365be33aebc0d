import { expect, test } from 'vitest'
import { toFile } from '../../../../src/daemon/gateway/surfaces/data-url.ts'

test('a data: URL may have a few parameters', () => {
  expect(toFile('f', 'data:text/plain;charset=utf-8;name=a.txt;base64,aGk=', undefined)).toEqual({
    type: 'file',
    mediaType: 'text/plain',
    data: 'aGk=',
  })
})

test('a data: URL with millions of parameters is rejected as any other URL', () => {
  const url = `data:image/png${';a'.repeat(10_000_000)}`
  expect(() => toFile('f', url, undefined)).toThrow('must be a data: URL')
})
