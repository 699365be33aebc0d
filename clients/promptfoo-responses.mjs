// promptfoo with its provider for OpenAI's Responses.
import { promptfoo } from './harness/promptfoo.mjs'

export default promptfoo({
  name: 'promptfoo, Responses',
  spoken: 'responses',
  provider: ({ url, apiKey, model }) => ({
    id: `openai:responses:${model}`,
    config: { apiBaseUrl: `${url}/v1`, apiKey, maxRetries: 0 },
  }),
  parts: {
    text: (text) => ({ type: 'input_text', text }),
    image: (data) => ({ type: 'input_image', image_url: `data:image/png;base64,${data}` }),
    imageUrl: (image_url) => ({ type: 'input_image', image_url }),
    pdf: (data) => ({ type: 'input_file', filename: 'mill.pdf', file_data: `data:application/pdf;base64,${data}` }),
  },
  settings: {
    limit: (max_output_tokens) => ({ max_output_tokens }),
    // Responses have no stop sequences.
    stop: { max_output_tokens: 20 },
    person: (schema) => ({
      response_format: { type: 'json_schema', json_schema: { name: 'person', strict: true, schema } },
    }),
    cached: { message: (content) => ({ role: 'system', content }), config: { prompt_cache_key: 'session-1' } },
  },
})
