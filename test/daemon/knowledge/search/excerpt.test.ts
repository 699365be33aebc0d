import fc from 'fast-check'
import { expect, test } from 'vitest'
import { excerptOf } from '../../../../src/daemon/knowledge/search/excerpt.ts'

const filler = (sentences: number) => 'Nothing of this says anything at all. '.repeat(sentences)

test('a short text is shown completely', () => {
  expect(excerptOf('Otters sleep.', 'sleep', 500)).toBe('Otters sleep.')
})

test.each([
  ['English', `${filler(30)}The passcode of the lounge is 4711. ${filler(30)}`, 'passcodes of lounges', '4711'],
  ['accents', `${filler(30)}Le numéro du café est 4711. ${filler(30)}`, 'numero cafe', '4711'],
  [
    'Chinese',
    `${'海象生活在北极。'.repeat(90)}会议室密码是4711。${'海象生活在北极。'.repeat(90)}`,
    '会议室密码',
    '4711',
  ],
  ['a soft hyphen', `${filler(30)}The pass\u00adcode is 4711. ${filler(30)}`, 'passcode', '4711'],
  ['an end', `${filler(30)}The passcode is 4711`, 'passcode', '4711'],
])('of a long one, the part that matches the query is shown: %s', (_, text, query, wanted) => {
  expect(text.slice(0, 500)).not.toContain(wanted)
  const excerpt = excerptOf(text, query, 500)
  expect(excerpt).toContain(wanted)
  expect(excerpt.length).toBeLessThanOrEqual(500)
})

test('adjacent words weigh more than one repeated word', () => {
  const text = `${'Passcode, passcode. '.repeat(20)}${filler(30)}The passcode of the lounge is 4711. ${filler(30)}`
  expect(excerptOf(text, 'passcode lounge', 500)).toContain('4711')
})

test('a text without a match, or with the best match at its start, is shown from its start', () => {
  const text = `The lounge is closed. ${filler(40)}The lounge is open. ${filler(40)}`
  for (const query of ['submarine', 'lounge', '']) expect(excerptOf(text, query, 500)).toBe(text.slice(0, 500))
})

test('an excerpt is a part of its text, as long as allowed, and starts with a word', () => {
  const piece = fc.constantFrom('otter ', 'sleep ', '海象', '😀', 'a\u0301', '. ', '\n\n', 'x'.repeat(80))
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 60 }), fc.integer({ min: 1, max: 100 }), (pieces, chars) => {
      const text = pieces.join('')
      const excerpt = excerptOf(text, 'sleep 海象', chars)
      expect(text.includes(excerpt)).toBe(true)
      expect(excerpt.length).toBeLessThanOrEqual(chars)
      expect(excerpt).not.toMatch(/\p{Surrogate}/u)
    }),
  )
})
