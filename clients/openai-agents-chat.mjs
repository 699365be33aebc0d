// OpenAI Agents, chat completions.
import { openaiAgents } from './harness/openai-agents.mjs'

export default openaiAgents({
  name: 'OpenAI Agents, chat completions',
  useResponses: false,
  stop: { providerData: { stop: ['STOP_HERE'] } },
})
