import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  countingMembers,
  countMembers,
  findDoubledMember,
  findingDoubledMember,
} from '../../src/shared/doubled-member.ts'

const json = fc.json({ maxDepth: 5, stringUnit: 'binary' })
const drained = <T>(steps: Generator<void, T>): T => {
  for (let step = steps.next(); ; step = steps.next()) if (step.done) return step.value
}

test.each([
  ['{"a":1,"a":2}', { name: 'a', where: '' }],
  ['{"a":1,"\\u0061":2}', { name: 'a', where: '' }],
  ['{"a":{"b":[0,{"c":1,"d":"c","c":2}]}}', { name: 'c', where: 'a.b.1' }],
  ['[[],{"x":{}},{"x":1,"y":{"x":1},"x":2}]', { name: 'x', where: '2' }],
  ['{"__proto__":1,"__proto__":2}', { name: '__proto__', where: '' }],
  ['{"":1,"":2}', { name: '', where: '' }],
  ['{"a\\"":1,"a\\\\":2,"a\\"":3}', { name: 'a"', where: '' }],
  [`{"${'n'.repeat(300)}":1,"${'n'.repeat(300)}":2}`, { name: 'n'.repeat(100), where: '' }],
])('finds the member in %s', (text, expected) => {
  expect(findDoubledMember(text)).toEqual(expected)
})

test('finds none in JSON that JSON.stringify wrote, and counts its members exactly', () => {
  fc.assert(
    fc.property(json, (text) => {
      const value: unknown = JSON.parse(text)
      const written = JSON.stringify(value)
      expect(findDoubledMember(written)).toBeUndefined()
      let members = 0
      JSON.parse(written, function (this: unknown, name, inner) {
        if (!Array.isArray(this) && (name !== '' || this !== undefined)) members += 1
        return inner
      })
      // The reviver is also called once for the value itself, as the member "" of an object.
      expect(countMembers(value)).toBe(members - 1)
      expect(drained(countingMembers(value))).toBe(members - 1)
    }),
  )
})

test('finds a member that is repeated anywhere', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue(), { minKeys: 1 }),
      fc.nat(),
      fc.nat(5),
      (object, pick, depth) => {
        const names = Object.keys(object)
        const name = names[pick % names.length] as string
        const inner = JSON.stringify(object)
        const twice = `${inner.slice(0, -1)},${JSON.stringify(name)}:0}`
        const text = `${'{"in":[1,'.repeat(depth)}${twice}${']}'.repeat(depth)}`
        expect(findDoubledMember(text)).toEqual({
          name: name.slice(0, 100),
          where: Array(depth).fill('in.1').join('.'),
        })
      },
    ),
  )
})

test('works in steps on a long text', () => {
  const items = Array.from({ length: 100_000 }, (_, at) => ({ at, name: 'x' }))
  const text = JSON.stringify([...items, { last: 1 }]).replace('"last":1', '"last":1,"last":2')
  const steps = [...findingDoubledMember(text)]
  expect(steps.length).toBeGreaterThan(5)
  expect(findDoubledMember(text)).toEqual({ name: 'last', where: '100000' })
  expect([...countingMembers(items)].length).toBeGreaterThan(3)
})
