import { expect, test } from 'vitest'
import { toChatInput } from '../../../../../src/daemon/gateway/surfaces/messages/input.ts'
import type { ProviderCall } from '../../../../../src/daemon/models/provider.ts'
import { toAnthropicRequest } from '../../../../../src/daemon/models/providers/anthropic/request.ts'
import { toModelFields } from '../../../../../src/daemon/models/providers/bedrock/model-fields.ts'
import { toGoogleRequest } from '../../../../../src/daemon/models/providers/google/request.ts'
import { MessagesRequest } from '../../../../../src/shared/wire/messages.ts'

const { options } = toChatInput(
  MessagesRequest.parse({
    model: 'p/m',
    max_tokens: 100,
    messages: [{ role: 'user', content: 'hi' }],
    thinking: { type: 'disabled' },
  }),
)
const callOf = (model: string): ProviderCall => ({
  model,
  system: '',
  messages: [{ role: 'user', content: 'hi' }],
  grounding: null,
  temperature: undefined,
  maxTokens: 100,
  stream: false,
  options,
  timeouts: { attemptMs: 1000, firstTokenMs: 1000, stallMs: 1000 },
})

test('Claude gets its own option to disable thinking', () => {
  expect(toAnthropicRequest(callOf('claude-opus-4-1'))).toMatchObject({ thinking: { type: 'disabled' } })
  expect(toModelFields(callOf('eu.anthropic.claude-opus-4-1'))).toEqual({ thinking: { type: 'disabled' } })
})

test('a Gemini that thinks by default, but can do without, gets no budget', () => {
  expect(toGoogleRequest(callOf('gemini-2.5-flash'))).toMatchObject({
    generationConfig: { thinkingConfig: { thinkingBudget: 0 } },
  })
})

test('a model without such an option gets none', () => {
  for (const model of ['amazon.nova-pro-v1:0', 'meta.llama3-70b', 'openai.gpt-oss-120b-1:0']) {
    expect(toModelFields(callOf(model))).toBeUndefined()
  }
  for (const model of ['gemini-3-pro-preview', 'gemini-2.5-pro', 'gemini-2.0-flash', 'gemini-2.5-flash-image']) {
    expect(toGoogleRequest(callOf(model))).not.toHaveProperty('generationConfig.thinkingConfig')
  }
})
