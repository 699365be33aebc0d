import { langChainClient } from './harness/langchain.mjs'

export default langChainClient(
  {
    name: 'LangChain, ChatGoogleGenerativeAI',
    packages: ['@langchain/google-genai'],
    interface: 'gemini',
    async model({ url, apiKey, model, load }, { maxTokens, stop }) {
      const { ChatGoogleGenerativeAI } = await load('@langchain/google-genai')
      return new ChatGoogleGenerativeAI({
        model,
        apiKey,
        baseUrl: url,
        maxRetries: 0,
        ...(maxTokens && { maxOutputTokens: maxTokens }),
        ...(stop && { stopSequences: [stop] }),
      })
    },
  },
  { 'image-url': 'no: the client accepts images only as data' },
)
