import { describe, expect, test } from 'vitest'
import { createMessageCleaner } from '../../../../src/daemon/gateway/governed/provider-message.ts'
import { secretsOf } from '../../../../src/daemon/models/credentials.ts'

const KEY = 'sk-upstream-secret'
const clean = createMessageCleaner({ credentials: [KEY, 'hunter2hunter2'], hosts: ['models.internal.example:8443'] })
const cleanedOf = (said: string, ...sent: unknown[]) => clean(said, sent)

describe('what providers say about their own faults stays readable', () => {
  test.each([
    'The model `gpt-4o-2024-08-06` does not exist or you do not have access to it.',
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
    'You exceeded your current quota, please check your plan and billing details.',
    'Number of request tokens has exceeded your per-minute rate limit (https://docs.anthropic.com/en/api/rate-limits)',
    'ThrottlingException: Too many requests, please wait before trying again.',
    "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
    'no healthy servers; reset reason: connection timeout',
    'The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again.',
    'Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade.',
    'invalid_request_error: max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5-20250929',
  ])('%s', (said) => {
    expect(cleanedOf(said, { messages: [{ role: 'user', content: 'Where did the heron leave its umbrella?' }] })).toBe(
      said,
    )
  })
})

describe('text of the request', () => {
  const sent = {
    system: 'Answer as a lighthouse keeper would.',
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Where did the heron\n leave its  "umbrella"?' }] }],
    options: {
      tools: [{ name: 'find_birds', parameters: { type: 'object', properties: { patient_record: {} } } }],
      stop: ['Ende der Geschichte'],
      native: { origin: 'anthropic', fields: { takeover_of_acme: 1 } },
    },
  }
  test.each([
    ['verbatim', 'Invalid: Where did the heron leave its umbrella? Fix it.', 'Invalid: …? Fix it.'],
    ['in another case and spacing', 'Invalid: WHERE DID\tTHE  heron leave. Fix it.', 'Invalid: …. Fix it.'],
    [
      'in JSON',
      'Invalid: {"content":"Where did the heron\\n leave its  \\"umbrella\\"?"}',
      'Invalid: {"content":"…"?"}',
    ],
    ['in part', 'Flagged near the heron leave its umb, sorry', 'Flagged near …, sorry'],
    ['of the system prompt', 'Flagged: a lighthouse keeper would', 'Flagged: …'],
    ['in the names of a schema', "Property 'patient_record' is bad", "Property '…' is bad"],
    [
      'in the names of unknown members',
      'takeover_of_acme: Extra inputs are not permitted',
      '…: Extra inputs are not permitted',
    ],
    ['in an option', 'Stop Ende der Geschichte is bad', 'Stop … is bad'],
    ['in a short quotation', "Word 'heron' is bad", "Word '…' is bad"],
  ])('is replaced %s', (_, said, shown) => {
    expect(cleanedOf(said, sent)).toBe(shown)
  })

  test('is replaced in other scripts, and if escaped', () => {
    const asked = ['Где цапля оставила зонт?', '苍鹭把伞落在哪里了']
    expect(cleanedOf('Bad input: цапля оставила зонт', ...asked)).toBe('Bad input: …')
    expect(cleanedOf('Bad input: 苍鹭把伞落在', ...asked)).toBe('Bad input: …')
    expect(cleanedOf('Bad input: \\u82cd\\u9e6d\\u628a\\u4f1e\\u843d', ...asked)).toBe('Bad input: …')
    expect(cleanedOf('Bad: %D1%86%D0%B0%D0%BF%D0%BB%D1%8F%20%D0%BE%D1%81%D1%82%D0%B0%D0%B2', ...asked)).toBe('Bad: …')
    expect(cleanedOf('Bad\u200b input: цап\u200bля остав\u00a0ила зонт', ...asked)).toBe('Bad input: …')
  })

  test('is replaced if one or both sides contain escapes', () => {
    const call = { arguments: '{"text":"one\\ntwo\\nthree\\nfour \\"five\\" & six"}' }
    for (const said of [
      'Bad: one\ntwo\nthree\nfour "five"',
      'Bad: {\\"text\\":\\"one\\\\ntwo\\\\nthree\\\\nfour \\\\\\"five\\\\\\"\\"}',
      'Bad: one%0Atwo%0Athree%0Afour%20%22five%22',
      'Bad: one two three four &quot;five&quot;',
    ]) {
      expect(cleanedOf(said, call)).toMatch(/^Bad: [^a-z]*$/)
    }
  })

  test('is found in bytes, and at any depth', () => {
    const bytes = new TextEncoder().encode('{"prompt":"the heron has an umbrella"}')
    expect(cleanedOf('Bad: the heron has an umbrella', { raw: { body: bytes } })).toBe('Bad: …')
  })

  test('leaves nothing if the message is only text of the request', () => {
    expect(cleanedOf('Where did the heron leave its umbrella?', sent)).toBeUndefined()
  })

  test('that is too long to compare leaves no message', () => {
    expect(cleanedOf('The server is overloaded', 'x'.repeat(250_000))).toBe('The server is overloaded')
    expect(cleanedOf('The server is overloaded', 'x'.repeat(300_001))).toBeUndefined()
    expect(
      cleanedOf('The server is overloaded', ...Array.from({ length: 6 }, (_, at) => `${at}`.repeat(90_000))),
    ).toBeUndefined()
    // The same text twice is compared once.
    expect(cleanedOf('The server is overloaded', 'x'.repeat(250_000), ['x'.repeat(250_000)])).toBeDefined()
  })

  test('is compared in a bounded time, whatever both contain', () => {
    const texts = ['x'.repeat(299_000), 'the model is '.repeat(22_000), '鷺'.repeat(99_000), ' '.repeat(299_000)]
    const messages = ['x'.repeat(2_000), 'the model is '.repeat(150), '鷺'.repeat(2_000), "'a' ".repeat(500)]
    const times = texts.flatMap((text) =>
      messages.map((message) => {
        const before = process.cpuUsage()
        cleanedOf(message, text)
        return process.cpuUsage(before).user / 1000
      }),
    )
    expect(Math.max(...times)).toBeLessThan(500)
  })
})

describe('secrets', () => {
  test.each([
    ['a configured key', `Incorrect key: ${KEY}.`, 'Incorrect key: …'],
    ['a part of a configured key', 'Incorrect key: sk-upstream-****', 'Incorrect key: …'],
    ['a configured password', 'No user with hunter2hunter2', 'No user with …'],
    ['a configured host', 'no route to models.internal.example:8443', 'no route to …'],
    [
      'another key',
      'Incorrect API key provided: sk-proj-1a2b3c4d5e6f. Find it.',
      'Incorrect API key provided: … Find it.',
    ],
    ['a masked key', 'Incorrect API key provided: sk-abcd********wxyz.', 'Incorrect API key provided: …'],
    ['a Google key', 'API key not valid: AIzaSyA1B2C3D4E5F6G7H8', 'API key not valid: …'],
    [
      'a header',
      'The header Authorization: Bearer abc123def456 was rejected',
      'The header Authorization: Bearer … was rejected',
    ],
    ['an AWS key', 'bad signature of AKIAIOSFODNN7EXAMPLE', 'bad signature of …'],
    ['base64', 'value dGhpcyBpcyBhIHNlY3JldDEyMw== is wrong', 'value … is wrong'],
    ['hex', 'value 7468697320697320612073656372657431 is wrong', 'value … is wrong'],
    ['bytes in percent escapes', 'value %ff%fe%fd%fc%fb%fa is wrong', 'value … is wrong'],
    [
      'an organisation',
      'Rate limit reached in organization org-AbCdEf123456 on requests',
      'Rate limit reached in organization … on requests',
    ],
    ['an e-mail address', 'The account jane.doe@example.com is suspended', 'The account … is suspended'],
    ['a card number', 'The card 4111 1111 1111 1111 was declined', 'The card … was declined'],
    ['an address', 'connect to 203.0.113.7 failed', 'connect to … failed'],
  ])('%s is replaced', (_, said, shown) => {
    expect(cleanedOf(said)).toBe(shown)
  })

  test('of the configuration are keys, headers, credentials and what an address contains', () => {
    const common = { models: undefined, headers: { 'x-team': 'the-team-token' } }
    expect(
      secretsOf({
        providers: [
          {
            ...common,
            name: 'a',
            kind: 'openai',
            baseUrl: 'https://ada:p%40ss@a.example/v1?code=1234',
            apiKey: 'key-a',
          },
          {
            ...common,
            name: 'b',
            kind: 'bedrock',
            region: 'eu-west-1',
            baseUrl: undefined,
            apiKey: undefined,
            credentials: { accessKeyId: 'id', secretAccessKey: 'secret', sessionToken: 'session' },
            proxy: 'http://bob:word@proxy.example:3128',
          },
        ],
        proxies: { https: 'http://proxy.example:3129' },
      }),
    ).toEqual({
      credentials: ['key-a', 'the-team-token', 'id', 'secret', 'session', 'ada', 'p@ss', '?code=1234', 'bob', 'word'],
      hosts: ['proxy.example:3129', 'a.example', 'proxy.example:3128'],
    })
  })
})

test('control and formatting characters are removed, and a long message is shortened', () => {
  expect(cleanedOf('one\u001b[31m\r\n\ttwo\u202e\u0000 three\u2028four')).toBe('one [31m two three four')
  for (const said of ['', ' \u0000 ', '…', '500', '\ud800']) expect(cleanedOf(said)).toBeUndefined()
  const long = cleanedOf('no \u{1f600} '.repeat(5_000)) ?? ''
  expect([[...long].length, long.isWellFormed(), long.endsWith('…')]).toEqual([300, true, true])
})

test('the end of a message that was cut on receipt is left out', () => {
  const said = `${'sk-aaaaaaaaaaaaaaaaaaaa '.repeat(81)}It ended with: the heron leaves`.slice(0, 2_000)
  expect(cleanedOf(said.padEnd(2_000, ' the heron'), 'the heron leaves')).not.toContain('heron')
})
