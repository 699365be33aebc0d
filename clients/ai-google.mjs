import { aiSdkClient } from './harness/ai-sdk.mjs'

export default aiSdkClient({
  name: 'Google provider',
  packages: ['@ai-sdk/google'],
  interface: 'gemini',
  async model({ url, apiKey, model, load }) {
    const { createGoogleGenerativeAI } = await load('@ai-sdk/google')
    return createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey })(model)
  },
})
