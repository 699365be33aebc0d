import fc from 'fast-check'
import { expect, test } from 'vitest'
import { toShellWord } from '../../../src/cli/output/shell-word.ts'
import { differences } from '../../../src/cli/resources/creation.ts'

test('omitted members do not differ, at any depth', () => {
  const there = { name: 'a', limits: { minute: 60, hour: 1000 }, users: ['1', '2'], note: null }
  expect(differences({}, there)).toEqual([])
  expect(differences({ name: undefined, limits: { minute: 60 } }, there)).toEqual([])
  expect(differences({ name: 'b', limits: { minute: 61 }, note: 'x', more: true }, there)).toEqual([
    'name',
    'limits',
    'note',
    'more',
  ])
})

test('lists are compared as sets, and texts without the white space around them', () => {
  expect(differences({ users: ['2', '1', '1'] }, { users: ['1', '2'] })).toEqual([])
  expect(differences({ users: ['1'] }, { users: ['1', '2'] })).toEqual(['users'])
  expect(differences({ users: [] }, { users: ['1'] })).toEqual(['users'])
  expect(differences({ description: ' x\n' }, { description: 'x' })).toEqual([])
})

test('the order of models to try matters, that of everything else does not', () => {
  const there = { failoverDefaults: { models: ['a/x', 'b/y'], on: ['timeout', 'rate_limit'] } }
  const wanted = (models: string[], on = ['rate_limit', 'timeout']) => ({ failoverDefaults: { models, on } })
  expect(differences(wanted(['a/x', 'b/y', 'a/x']), there)).toEqual([])
  expect(differences(wanted(['b/y', 'a/x']), there)).toEqual(['failoverDefaults'])
})

test('times are compared as instants, emails and usernames in any case, and other texts as they are', () => {
  const there = { expiresAt: '2030-01-31T10:30:00.000Z', email: 'ada@x.org', username: 'ada', name: 'Ada' }
  expect(differences({ expiresAt: '2030-01-31T12:30:00+02:00', email: 'ADA@x.org', username: 'Ada' }, there)).toEqual(
    [],
  )
  expect(differences({ expiresAt: '2030-01-31T12:30:00Z', email: 'ad@x.org', name: 'ada' }, there)).toEqual([
    'expiresAt',
    'email',
    'name',
  ])
})

test('nothing differs from itself', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      expect(differences(value, JSON.parse(JSON.stringify(value)))).toEqual([])
    }),
  )
})

test('a member may have a name that every object has', () => {
  expect(differences({ valueOf: 'a', toString: 'b' }, { valueOf: 'a', toString: 'c' })).toEqual(['toString'])
})

test('a name that is put in quotes means itself to a shell', () => {
  expect(toShellWord('support')).toBe('support')
  expect(toShellWord('')).toBe("''")
  expect(toShellWord("it's $(rm)")).toBe("'it'\\''s $(rm)'")
})
