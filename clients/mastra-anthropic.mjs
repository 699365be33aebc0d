// Mastra with the Anthropic model of the AI SDK.
import { createAnthropic } from '@ai-sdk/anthropic'
import { mastra } from './harness/mastra.mjs'

const cacheControl = { anthropic: { cacheControl: { type: 'ephemeral' } } }

export default mastra({
  name: 'Mastra, Anthropic model of the AI SDK',
  packages: ['@ai-sdk/anthropic'],
  spoken: 'messages',
  model: ({ url, apiKey, model }) => createAnthropic({ baseURL: `${url}/v1`, apiKey })(model),
  cached: { instructions: (content) => ({ role: 'system', content, providerOptions: cacheControl }) },
})
