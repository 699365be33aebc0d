import { aiSdkClient } from './harness/ai-sdk.mjs'

export default aiSdkClient(
  {
    name: 'OpenAI-compatible provider',
    packages: ['@ai-sdk/openai-compatible'],
    interface: 'chat',
    async model({ url, apiKey, model, load }) {
      const { createOpenAICompatible } = await load('@ai-sdk/openai-compatible')
      const baseURL = `${url}/v1`
      return createOpenAICompatible({
        name: 'aigw',
        baseURL,
        apiKey,
        includeUsage: true,
        supportsStructuredOutputs: true,
      })(model)
    },
    onRequest: { aigw: { prompt_cache_key: 'session-1' } },
  },
  { 'image-url': 'no: the client downloads the image and sends its bytes' },
)
