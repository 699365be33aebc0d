// promptfoo with its provider for OpenAI's chat completions.
import { promptfoo } from './harness/promptfoo.mjs'

export default promptfoo({
  name: 'promptfoo, chat completions',
  spoken: 'chat',
  provider: ({ url, apiKey, model }) => ({
    id: `openai:chat:${model}`,
    config: { apiBaseUrl: `${url}/v1`, apiKey, maxRetries: 0 },
  }),
  parts: {
    text: (text) => ({ type: 'text', text }),
    image: (data) => ({ type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } }),
    imageUrl: (url) => ({ type: 'image_url', image_url: { url } }),
    pdf: (data) => ({
      type: 'file',
      file: { filename: 'mill.pdf', file_data: `data:application/pdf;base64,${data}` },
    }),
  },
  settings: {
    limit: (max_completion_tokens) => ({ max_completion_tokens }),
    stop: { stop: ['STOP_HERE'] },
    person: (schema) => ({
      response_format: { type: 'json_schema', json_schema: { name: 'person', strict: true, schema } },
    }),
    cached: { message: (content) => ({ role: 'system', content }), config: { prompt_cache_key: 'session-1' } },
  },
})
