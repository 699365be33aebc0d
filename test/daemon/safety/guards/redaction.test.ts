import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Finding } from '../../../../src/daemon/safety/guards/detection.ts'
import { createPseudonyms } from '../../../../src/daemon/safety/guards/pseudonyms.ts'
import { type ArmedDetector, screenText } from '../../../../src/daemon/safety/guards/redaction.ts'
import type { PolicyAction } from '../../../../src/shared/wire/policies.ts'
import { armAll } from './stream/sample-detectors.ts'

const pseudonyms = () => createPseudonyms({ key: Buffer.alloc(32, 1), tenantId: 't1', texts: [] })
const at = (start: number, end: number, type: string, confidence = 1): Finding => ({ start, end, type, confidence })
const finding = (findings: Finding[], actions: Record<string, PolicyAction>): ArmedDetector[] => [
  {
    guard: 'sample',
    detector: { find: () => findings, openFrom: (text) => text.length },
    actionOf: (type) => actions[type] ?? 'mask',
  },
]

test.each([
  ['log', 'call 4111 1111 1111 1111 now'],
  ['mask', 'call **** **** **** 1111 now'],
  ['remove', 'call … now'],
  ['tokenize', expect.stringMatching(/^call CREDIT_CARD_([b-z][2-9]){5} now$/)],
] as const)('%s changes a value as defined, and is counted', (action, expected) => {
  const armed = finding([at(5, 24, 'CREDIT_CARD')], { CREDIT_CARD: action })
  const screened = screenText('call 4111 1111 1111 1111 now', 'text', armed, pseudonyms())
  expect(screened.text).toEqual(expected)
  expect(screened.isBlocked).toBe(false)
  expect(screened.hits).toEqual([{ guard: 'sample', type: 'CREDIT_CARD', action, count: 1 }])
})

test('block reports itself, and removes the value from the text', () => {
  const screened = screenText('a 1234 b', 'text', finding([at(2, 6, 'CREDIT_CARD')], { CREDIT_CARD: 'block' }))
  expect(screened).toMatchObject({ text: 'a … b', isBlocked: true })
})

test('removing a value does not join its neighbours into another value', () => {
  const armed = [finding([at(2, 7, 'word')], { word: 'remove' })[0] as ArmedDetector, ...armAll(() => 'mask')]
  const { text } = screenText('joacme @x', 'text', armed)
  expect(text).toBe('jo…@x')
  expect(
    screenText(
      text,
      'text',
      armAll(() => 'mask'),
    ).hits,
  ).toEqual([])
})

test('overlapping findings change together, by the strongest action, so that no part of a value remains', () => {
  const findings = [at(0, 8, 'part'), at(4, 14, 'whole'), at(12, 16, 'tail')]
  const armed = finding(findings, { part: 'mask', whole: 'mask', tail: 'remove' })
  expect(screenText('jane.doe@x.com.. and', 'text', armed).text).toBe('… and')
  const logged = finding(findings, { part: 'log', whole: 'mask', tail: 'log' })
  expect(screenText('jane.doe@x.com.. and', 'text', logged).text).toBe('jane[WHOLE].. and')
})

test('a value is masked once, in any order of its findings', () => {
  const some = fc.record({
    start: fc.nat(20),
    size: fc.integer({ min: 1, max: 6 }),
    type: fc.constantFrom('a', 'b', 'c'),
  })
  fc.assert(
    fc.property(fc.uniqueArray(some, { selector: (one) => `${one.start} ${one.size} ${one.type}` }), (picked) => {
      const findings = picked.map(({ start, size, type }) => at(start, start + size, type))
      const text = 'abcdefghijklmnopqrstuvwxyz'
      const actions: Record<string, PolicyAction> = { a: 'mask', b: 'remove', c: 'tokenize' }
      const screened = screenText(text, 'text', finding(findings, actions), pseudonyms())
      expect(screenText(text, 'text', finding(findings.toReversed(), actions), pseudonyms()).text).toBe(screened.text)
      const kept = Array.from(text).filter((_, place) => findings.every((one) => place < one.start || place >= one.end))
      expect(screened.text.replace(/…|\[[A-Z]\]|[A-Z]_[a-z0-9]{10}/g, '')).toBe(kept.join(''))
    }),
  )
})

test('without findings the text is unchanged, including JSON with escapes', () => {
  const armed = armAll(() => 'mask')
  expect(screenText('{"a": "\\u0041 \\/"}', 'json', armed).text).toBe('{"a": "\\u0041 \\/"}')
})

test.each([
  ['{"a": "\\u006ao@x", "b": [12345, -7]}', { a: '[PAIR]', b: ['[DIGITS]', -7] }],
  ['{"a": -12345.5}', { a: '[DIGITS]' }],
  ['{"n\\"": "say \\"1234\\""}', { 'n"': 'say "[DIGITS]"' }],
  ['["<<", 1, {"x": ">>"}]', ['[FENCE]', '', { '': '' }]],
])('JSON %s remains JSON', (raw, expected) => {
  expect(
    JSON.parse(
      screenText(
        raw,
        'json',
        armAll(() => 'mask'),
      ).text,
    ),
  ).toEqual(expected)
})

test('a text that only starts like JSON is still scanned', () => {
  const raw = 'Here: {"a": 1234, "b": "12345\\u00'
  expect(
    screenText(
      raw,
      'json',
      armAll(() => 'mask'),
    ).text,
  ).toBe('Here: {"a": "[DIGITS]", "b": "[DIGITS]\\u00')
})
