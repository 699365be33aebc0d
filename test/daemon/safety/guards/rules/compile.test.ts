import { expect, test } from 'vitest'
import { compileRules, createRuleDetector } from '../../../../../src/daemon/safety/guards/rules/compile.ts'
import { VALIDATORS } from '../../../../../src/daemon/safety/guards/rules/validators.ts'
import { GuardRuleDocument } from '../../../../../src/shared/wire/guard-rules.ts'

const found = (rule: object, text: string) =>
  createRuleDetector(GuardRuleDocument.parse({ kind: 'dlp', ...rule }), 'a-rule')
    .find(text)
    .map(({ start, end, type }) => [text.slice(start, end), type])

test('a rule with a pattern, keywords or a dictionary finds its values, under its own id', () => {
  expect(found({ detector: 'regex', pattern: 'k\\d+' }, 'K12')).toEqual([['K12', 'a-rule']])
  expect(found({ detector: 'keywords', words: ['falcon'] }, 'falconry Falcon')).toEqual([['Falcon', 'a-rule']])
  expect(found({ detector: 'dictionary', words: ['falcon'] }, 'falconry')).toEqual([['falcon', 'a-rule']])
})

test('a rule with a built-in detector finds what the detector finds', () => {
  expect(found({ detector: 'builtin:secrets' }, 'password = "tr0ub4dor&3"')).toEqual([['tr0ub4dor&3', 'password']])
  expect(found({ detector: 'builtin:document-markings' }, 'CONFIDENTIAL\n')).toEqual([
    ['CONFIDENTIAL', 'document-marking'],
  ])
  expect(found({ detector: 'builtin:source-code' }, 'no program')).toEqual([])
  expect(found({ kind: 'pii', detector: 'builtin:EMAIL' }, 'to jane@example.com, 4111 1111 1111 1111')).toEqual([
    ['jane@example.com', 'EMAIL'],
  ])
})

test('a validator removes invalid findings', () => {
  const rule = { detector: 'regex', pattern: '\\d{16}', validator: 'luhn' }
  expect(found(rule, '4111111111111111 4111111111111112')).toEqual([['4111111111111111', 'a-rule']])
})

test.each([
  ['luhn', '4111 1111 1111 1111', '4111 1111 1111 1112'],
  ['iban', 'DE89 3704 0044 0532 0130 00', 'DE88 3704 0044 0532 0130 00'],
  ['entropy', 'q8ZrT2mKx4LwV7nB1cYd', 'aaaaaaaaaaaaaaaaaaaa'],
] as const)('%s passes %s and not %s', (name, good, bad) => {
  expect([VALIDATORS[name](good), VALIDATORS[name](bad)]).toEqual([true, false])
})

test('only enabled rules are compiled, and a simulating one is not enforced', () => {
  const rule = (name: string, given: object) => ({
    id: name,
    name,
    createdAt: '',
    updatedAt: '',
    ...GuardRuleDocument.parse({ kind: 'dlp', detector: 'builtin:secrets', severity: 'high', ...given }),
  })
  const planned = compileRules([rule('on', {}), rule('off', { enabled: false }), rule('watching', { simulate: true })])
  expect(planned).toMatchObject([
    { ruleId: 'on', category: 'secrets', severity: 'high', action: 'log', direction: 'both', enforced: true },
    { ruleId: 'watching', enforced: false },
  ])
})
