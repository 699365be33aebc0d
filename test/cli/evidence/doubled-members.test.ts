import fc from 'fast-check'
import { expect, test } from 'vitest'
import { hasDoubledMember } from '../../../src/cli/evidence/doubled-members.ts'

test('the output of JSON.stringify has no duplicate members', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), fc.constantFrom(0, 2), (value, indent) => {
      expect(hasDoubledMember(JSON.stringify(value, null, indent))).toBe(false)
    }),
  )
})

test('a member that stands twice in one object is found, however it is written and wherever the object is', () => {
  const name = fc.string({ unit: 'binary' })
  const around = fc.constantFrom(
    (json: string) => json,
    (json: string) => `[{"a":{}},${json}]`,
    (json: string) => `{"a":[[${json}]]}`,
  )
  const escaped = (text: string) =>
    `"${[...Array(text.length).keys()].map((at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')}"`
  fc.assert(
    fc.property(name, fc.jsonValue(), around, (name, value, put) => {
      const text = JSON.stringify(value)
      expect(hasDoubledMember(put(`{${JSON.stringify(name)}:${text},${escaped(name)} \n: 0}`))).toBe(true)
    }),
  )
})

test.each(['{"a":"b","b":"a"}', '[{"a":1},{"a":1}]', '{"a":{"a":["a","a"]}}', '{"a":"\\",\\"a\\":"}'])(
  '%s has no member twice',
  (json) => expect(hasDoubledMember(json)).toBe(false),
)
