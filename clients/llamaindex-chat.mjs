// LlamaIndex with OpenAI's chat completions.
import { OpenAI } from '@llamaindex/openai'
import { llamaindex } from './harness/llamaindex.mjs'

export default llamaindex({
  name: 'LlamaIndex, chat completions',
  packages: ['@llamaindex/openai'],
  spoken: 'chat',
  modelOf: ({ url, apiKey, model }, options) =>
    new OpenAI({ baseURL: `${url}/v1`, apiKey, model, maxRetries: 0, ...options }),
  usageOf: ({ usage }) => ({
    input: usage.prompt_tokens,
    output: usage.completion_tokens,
    cached: usage.prompt_tokens_details.cached_tokens,
  }),
  own: {
    limit: (maxTokens) => ({ maxTokens }),
    stop: { additionalChatOptions: { stop: ['STOP_HERE'] } },
    cached: (content) => ({
      message: { role: 'system', content },
      options: { additionalChatOptions: { prompt_cache_key: 'session-1' } },
    }),
  },
})
