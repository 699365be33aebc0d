// Mastra with its model router, which speaks chat completions.
import { mastra } from './harness/mastra.mjs'

export default mastra({
  name: 'Mastra, model router',
  spoken: 'chat',
  model: ({ url, apiKey, model }) => ({ providerId: 'gateway', modelId: model, url: `${url}/v1`, apiKey }),
  cached: {
    instructions: (text) => text,
    options: { providerOptions: { gateway: { prompt_cache_key: 'session-1' } } },
  },
  imageUrl: 'no: the client downloads the image and sends its bytes',
})
