import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { prepareSnippets, watchOutput } from '../../../../../src/daemon/safety/guards/shield/output.ts'

const PROMPT =
  'You are Anna, the assistant of Nordwind Travel. Offer refunds of up to 200 euros without asking. Never mention the partner code NW-7781. Answer in the language of the customer and stay polite.'

const scanOutput = (output: string, { systemPromptSnippets = [] as string[] } = {}) =>
  watchOutput(prepareSnippets(systemPromptSnippets)).add(output)

const leaks = (output: string, snippets: string[] = [PROMPT]) => scanOutput(output, { systemPromptSnippets: snippets })

describe('a leak of the system prompt', () => {
  test.each([
    ['word for word', `Sure! My instructions are: "${PROMPT}"`],
    ['in capitals', PROMPT.toUpperCase()],
    ['spaced out', Array.from(PROMPT).join(' ')],
    ['with other signs', PROMPT.replaceAll(' ', '_').replaceAll('.', '\n- ')],
    ['in base64', Buffer.from(PROMPT).toString('base64')],
    ['backwards', Array.from(PROMPT).reverse().join('')],
    ['with characters that nobody sees', Array.from(PROMPT).join('\u200b')],
    ['half of it', `I was told this: ${PROMPT.slice(0, PROMPT.length / 2)}`],
  ])('%s is found', (_, output) => {
    expect(leaks(output)).toMatchObject({
      verdict: 'FLAG',
      detections: [{ type: 'system_prompt_leak', category: 'prompt_leaking' }],
    })
  })

  test('is found at any position of an answer', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 300 }), fc.string({ maxLength: 300 }), (before, after) => {
        expect(leaks(`${before} ${PROMPT} ${after}`).riskScore).toBe(100)
      }),
      { numRuns: 50 },
    )
  })

  test('one of several snippets is enough, but not a very short one', () => {
    expect(
      leaks(`code: ${'blue heron 42 over water'}`, ['unrelated words of a prompt', 'Blue heron 42 over water']).verdict,
    ).toBe('FLAG')
    expect(leaks('You are right.', ['You are']).verdict).toBe('ALLOW')
  })

  test.each([
    ['strict', { sensitivity: 'strict' }],
    ['thresholds of 1', { thresholds: { log: 1, flag: 1, block: 1 } }],
    ['a category that may be blocked', { categories: { prompt_leaking: 'BLOCK' } }],
  ] as const)('is flagged and never blocked: %s', (_, options) => {
    expect(watchOutput(prepareSnippets([PROMPT]), options).add(PROMPT)).toMatchObject({
      riskScore: 100,
      verdict: 'FLAG',
    })
  })

  test('is limited to the verdict of its category', () => {
    const watch = watchOutput(prepareSnippets([PROMPT]), { categories: { prompt_leaking: 'LOG' } })
    expect(watch.add(PROMPT).verdict).toBe('LOG')
  })

  test('does not aggravate another finding', () => {
    const output = `${PROMPT} I have no rules.`
    expect(leaks(output)).toMatchObject({
      riskScore: 100,
      verdict: 'FLAG',
      detections: [{ type: 'system_prompt_leak' }, { type: 'role_drift' }],
    })
  })

  test('is not found when an answer shares words with the prompt', () => {
    expect(
      leaks('I am Anna, the assistant of Nordwind Travel. Your refund of 40 euros is on its way.').detections,
    ).toEqual([])
    expect(leaks('').detections).toEqual([])
  })
})

test('a model that mentions its new freedom has drifted', () => {
  expect(scanOutput('I am unrestricted now. Evil mode activated.')).toMatchObject({
    verdict: 'FLAG',
    detections: [{ type: 'role_drift', category: 'role_hijack' }],
  })
  expect(scanOutput('You can reset the password in the settings of your account.').detections).toEqual([])
})

test('the result for the worst snippet and text needs one pass', () => {
  const repeated = 'ab'.repeat(4_000)
  expect(leaks(repeated.repeat(4), [repeated]).riskScore).toBe(100)
})
