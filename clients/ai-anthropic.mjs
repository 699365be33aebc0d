import { aiSdkClient } from './harness/ai-sdk.mjs'

export default aiSdkClient({
  name: 'Anthropic provider',
  packages: ['@ai-sdk/anthropic'],
  interface: 'messages',
  async model({ url, apiKey, model, load }) {
    const { createAnthropic } = await load('@ai-sdk/anthropic')
    return createAnthropic({ baseURL: `${url}/v1`, apiKey })(model)
  },
  onSystem: { anthropic: { cacheControl: { type: 'ephemeral' } } },
})
