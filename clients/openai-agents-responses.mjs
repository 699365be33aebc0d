// OpenAI Agents, Responses.
import { openaiAgents } from './harness/openai-agents.mjs'

export default openaiAgents({
  name: 'OpenAI Agents, Responses',
  useResponses: true,
  stop: 'no: Responses have no stop sequences, and the client reports an answer that reaches its limit as an error',
})
