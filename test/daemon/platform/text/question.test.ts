import { expect, test } from 'vitest'
import { questionOf } from '../../../../src/daemon/platform/text/question.ts'

const INSTALL = 'How do I install the daemon?'

test.each([
  'What is a webhook endpoint?',
  'What is the VPN?',
  'And on Windows?',
  'Funktioniert das auch unter Windows?',
  'Est-ce que cela fonctionne aussi sous Windows ?',
  '¿Y en Windows?',
  '那么在Windows上呢？',
  'ではWindowsでは？',
])('a question is searched alone, and with the previous one in any language: %s', (question) => {
  expect(questionOf([INSTALL, question])).toEqual({ own: question, inContext: `${question}\n${INSTALL}\n${question}` })
})

test.each(['Why?', 'And how about that?', 'What is it?', '?'])(
  'a question with only stop words is not searched alone: %s',
  (question) => {
    expect(questionOf([INSTALL, question])).toEqual({ own: '', inContext: `${question}\n${INSTALL}\n${question}` })
  },
)

test.each([
  'And on Windows?',
  'Why?',
  'Und unter Windows?',
  '¿Y en Windows?',
  '那么在Windows上呢？',
  'ではWindowsでは？',
])('an earlier follow-up question includes the one before it: %s', (leaning) => {
  expect(questionOf(['What is this product for?', INSTALL, leaning, 'On a Mac?']).inContext).toBe(
    `On a Mac?\n${leaning}\n${INSTALL}\nOn a Mac?`,
  )
})

test('an independent question does not include the previous one', () => {
  expect(questionOf(['What is this product for?', INSTALL, 'On a Mac?']).inContext).toBe(
    `On a Mac?\n${INSTALL}\nOn a Mac?`,
  )
})

test('the first question has no context, and without a question the text is empty', () => {
  expect(questionOf(['Why?'])).toEqual({ own: 'Why?', inContext: undefined })
  expect(questionOf([])).toEqual({ own: '', inContext: undefined })
})

test('of a long message only its beginning and its end are searched', () => {
  const { own, inContext } = questionOf(['Before.', `begin ${'x'.repeat(300_000)} end`])
  expect(own.length).toBeLessThanOrEqual(2_001)
  expect(own).toMatch(/^begin .* end$/s)
  expect(inContext).toBeUndefined()
})
