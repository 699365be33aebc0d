import fc from 'fast-check'
import { expect, test } from 'vitest'
import { toJsonString } from '../../../../src/daemon/platform/text/json-string.ts'

const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: fc.constantFrom('"', '\\', '\n', '\u007f', '\u2028', 'é', '😀', '\ud83d', '\ude00', 'a', '/') }),
)

test('any text is written as JSON.stringify writes it', () => {
  fc.assert(fc.property(text, (value) => toJsonString(value) === JSON.stringify(value)))
})

test('every single UTF-16 code unit is written as JSON.stringify writes it', () => {
  for (let unit = 0; unit <= 0xffff; unit++) {
    const value = `a${String.fromCharCode(unit)}b`
    if (toJsonString(value) !== JSON.stringify(value)) expect(toJsonString(value)).toBe(JSON.stringify(value))
  }
})
