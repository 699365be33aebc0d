import { chatOpenAi, langChainClient } from './harness/langchain.mjs'

export default langChainClient({
  name: 'LangChain, ChatOpenAI',
  packages: ['@langchain/openai'],
  interface: 'chat',
  model: chatOpenAi,
})
