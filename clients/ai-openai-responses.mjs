import { aiSdkClient } from './harness/ai-sdk.mjs'

export default aiSdkClient({
  name: 'OpenAI Responses model',
  packages: ['@ai-sdk/openai'],
  interface: 'responses',
  async model({ url, apiKey, model, load }) {
    const { createOpenAI } = await load('@ai-sdk/openai')
    return createOpenAI({ baseURL: `${url}/v1`, apiKey }).responses(model)
  },
  onRequest: { openai: { promptCacheKey: 'session-1' } },
  hasStop: false,
})
