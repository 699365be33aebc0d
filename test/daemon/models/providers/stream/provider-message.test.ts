import { expect, test } from 'vitest'
import { toProviderMessage } from '../../../../../src/daemon/models/providers/stream/provider-message.ts'

test.each([
  [
    'Incorrect API key provided: sk-proj-1a2b3c4d5e6f. Find your key.',
    'Incorrect API key provided: [key] Find your key.',
  ],
  ['Incorrect API key provided: sk-abcd********wxyz', 'Incorrect API key provided: [key]'],
  ['API key not valid: AIzaSyA1B2C3D4E5F6G7H8', 'API key not valid: [key]'],
  ['The header Authorization: Bearer abc123def456 was rejected', 'The header Authorization: Bearer [key] was rejected'],
  ['bad signature of AKIAIOSFODNN7EXAMPLE', 'bad signature of [key]'],
  ['value dGhpcyBpcyBhIHNlY3JldDEyMw== is wrong', 'value [key] is wrong'],
  ['The model `gpt-4o-2024-08-06` does not exist', 'The model `gpt-4o-2024-08-06` does not exist'],
  ["This model's maximum context length is 8192 tokens", "This model's maximum context length is 8192 tokens"],
])('a key in a message is replaced, and nothing else: %s', (text, cleaned) => {
  expect(toProviderMessage(text)).toBe(cleaned)
})

test('control and formatting characters are removed, and a long text is shortened', () => {
  expect(toProviderMessage('one\u001b[31m\r\n\ttwo\u202e\u0000 three\u2028four')).toBe('one [31m two three four')
  expect(toProviderMessage('')).toBeUndefined()
  expect(toProviderMessage(' \u0000 ')).toBeUndefined()
  const long = toProviderMessage('\u{1f600} '.repeat(5_000))
  expect([[...(long ?? '')].length, long?.isWellFormed(), long?.endsWith('…')]).toEqual([300, true, true])
})
