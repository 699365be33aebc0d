// promptfoo with its provider for Anthropic's Messages.
import { promptfoo } from './harness/promptfoo.mjs'

export default promptfoo({
  name: 'promptfoo, Anthropic',
  spoken: 'messages',
  provider: ({ url, apiKey, model }) => ({
    id: `anthropic:messages:${model}`,
    config: { apiBaseUrl: url, apiKey, maxRetries: 0 },
  }),
  parts: {
    text: (text) => ({ type: 'text', text }),
    image: (data) => ({ type: 'image', source: { type: 'base64', media_type: 'image/png', data } }),
    imageUrl: (url) => ({ type: 'image', source: { type: 'url', url } }),
    pdf: (data) => ({ type: 'document', source: { type: 'base64', media_type: 'application/pdf', data } }),
  },
  settings: {
    limit: (max_tokens) => ({ max_tokens }),
    stop: { extra_body: { stop_sequences: ['STOP_HERE'] } },
    person: (schema) => ({ output_format: { type: 'json_schema', schema } }),
    cached: {
      message: (text) => ({ role: 'system', content: [{ type: 'text', text, cache_control: { type: 'ephemeral' } }] }),
    },
  },
})
