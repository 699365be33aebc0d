import { langChainClient } from './harness/langchain.mjs'

export default langChainClient({
  name: 'LangChain, ChatAnthropic',
  packages: ['@langchain/anthropic'],
  interface: 'messages',
  async model({ url, apiKey, model, load }, { maxTokens, stop }) {
    const { ChatAnthropic } = await load('@langchain/anthropic')
    return new ChatAnthropic({
      model,
      apiKey,
      anthropicApiUrl: url,
      maxRetries: 0,
      ...(maxTokens && { maxTokens }),
      ...(stop && { stopSequences: [stop] }),
    })
  },
  onSystem: { cache_control: { type: 'ephemeral' } },
})
