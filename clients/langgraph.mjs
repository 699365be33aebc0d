import { chatOpenAi, langChainClient } from './harness/langchain.mjs'

export default langChainClient({
  name: 'LangGraph, agent with ChatOpenAI',
  packages: ['@langchain/langgraph', '@langchain/openai'],
  interface: 'chat',
  model: chatOpenAi,
  inAgent: true,
})
