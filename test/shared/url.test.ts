import { expect, test } from 'vitest'
import { parseUrl } from '../../src/shared/url.ts'

test('a URL with letters outside ASCII is parsed, however often', () => {
  const hosts = new Set(Array.from({ length: 20_000 }, () => parseUrl('http://local\u00adhost/é')?.href))
  expect([...hosts]).toEqual(['http://localhost/%C3%A9'])
})

test.each(['', 'example.com', 'http://', 'http://[::1', '/path'])('%j is no absolute URL', (text) => {
  expect(parseUrl(text)).toBeUndefined()
})
