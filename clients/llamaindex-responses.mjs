// LlamaIndex with OpenAI's Responses.
import { OpenAIResponses } from '@llamaindex/openai'
import { llamaindex } from './harness/llamaindex.mjs'

export default llamaindex({
  name: 'LlamaIndex, Responses',
  packages: ['@llamaindex/openai'],
  spoken: 'responses',
  modelOf: ({ url, apiKey, model }, options) =>
    new OpenAIResponses({ baseURL: `${url}/v1`, apiKey, model, maxRetries: 0, ...options }),
  usageOf: ({ usage }) => ({
    input: usage.input_tokens,
    output: usage.output_tokens,
    cached: usage.input_tokens_details.cached_tokens,
  }),
  // The client shows the end of a stream only as a raw event.
  isIncomplete: ({ raw }) => ['response.failed', 'response.incomplete'].includes(raw.type),
  own: {
    limit: (maxOutputTokens) => ({ maxOutputTokens }),
    // Responses have no stop sequences.
    stop: { maxOutputTokens: 20 },
    cached: (content) => ({
      message: { role: 'system', content },
      options: { additionalChatOptions: { prompt_cache_key: 'session-1' } },
    }),
  },
})
