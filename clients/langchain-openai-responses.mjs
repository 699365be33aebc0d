import { chatOpenAi, langChainClient } from './harness/langchain.mjs'

export default langChainClient({
  name: 'LangChain, ChatOpenAI with Responses',
  packages: ['@langchain/openai'],
  interface: 'responses',
  model: (ctx, question) => chatOpenAi(ctx, question, { useResponsesApi: true }),
  hasStop: false,
})
