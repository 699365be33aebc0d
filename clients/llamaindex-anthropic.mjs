// LlamaIndex with Anthropic's Messages.
import { Anthropic, AnthropicSession } from '@llamaindex/anthropic'
import { llamaindex } from './harness/llamaindex.mjs'

export default llamaindex({
  name: 'LlamaIndex, Anthropic',
  packages: ['@llamaindex/anthropic'],
  spoken: 'messages',
  modelOf: ({ url, apiKey, model }, options) =>
    new Anthropic({ session: new AnthropicSession({ baseURL: url, apiKey, maxRetries: 0 }), model, ...options }),
  usageOf: ({ usage }) => ({
    input: usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
    output: usage.output_tokens,
    cached: usage.cache_read_input_tokens,
  }),
  own: {
    limit: (maxTokens) => ({ maxTokens }),
    stop: { additionalChatOptions: { stop_sequences: ['STOP_HERE'] } },
    cached: (content) => ({
      message: { role: 'system', content, options: { cache_control: { type: 'ephemeral' } } },
    }),
    imageUrl: 'no: the client sends images only as data',
  },
})
