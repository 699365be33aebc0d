import { aiSdkClient } from './harness/ai-sdk.mjs'

export default aiSdkClient({
  name: 'OpenAI chat model',
  packages: ['@ai-sdk/openai'],
  interface: 'chat',
  async model({ url, apiKey, model, load }) {
    const { createOpenAI } = await load('@ai-sdk/openai')
    return createOpenAI({ baseURL: `${url}/v1`, apiKey }).chat(model)
  },
  onRequest: { openai: { promptCacheKey: 'session-1' } },
})
