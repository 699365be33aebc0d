import {
  type GenerationOptions,
  type ResponseFormat,
  systemText,
  type Tool,
  type ToolChoice,
} from '../../conversation.ts'
import { type ProviderCall, ProviderError } from '../../provider.ts'
import { toContents } from './messages.ts'
import { WITHOUT_THINKING_CONFIG } from './supported.ts'

/** Matches models older than Gemini 3. These models use a thinking budget in tokens, and accept unsigned tool calls. */
const BEFORE_GEMINI_3 = /gemini-[12]\.|gemini-robotics-er-1\.|gemma|learnlm/

const THINKING_LEVELS = new Set(['minimal', 'low', 'medium', 'high'])
/** The thinking budget of each effort, as in Google's OpenAI-compatible API. */
const THINKING_BUDGETS = new Map([
  ['none', 0],
  ['minimal', 1024],
  ['low', 1024],
  ['medium', 8192],
  ['high', 24_576],
])

/**
 * Returns the body of `generateContent` and `streamGenerateContent` for a call (ai.google.dev/api/generate-content).
 * The end user's name is not sent, because the API has no field for it.
 * @throws ProviderError `bad_request` for options that the API does not support
 */
export function toGoogleRequest({
  model,
  system: prompt,
  messages,
  temperature,
  maxTokens,
  options = {},
}: ProviderCall): object {
  const system = systemText(prompt)
  return {
    ...(system !== '' && { systemInstruction: { parts: [{ text: system }] } }),
    contents: toContents(messages, { signedCalls: !BEFORE_GEMINI_3.test(model) }),
    ...toTools(options),
    generationConfig: {
      maxOutputTokens: maxTokens,
      temperature,
      topP: options.topP,
      topK: options.topK,
      stopSequences: options.stop,
      seed: options.seed,
      presencePenalty: options.presencePenalty,
      frequencyPenalty: options.frequencyPenalty,
      ...(options.responseFormat && toResponseFormat(options.responseFormat)),
      ...(options.logprobs && { responseLogprobs: true, logprobs: options.topLogprobs }),
      ...(options.reasoningEffort !== undefined && { thinkingConfig: toThinking(model, options.reasoningEffort) }),
      ...(options.noReasoning && WITHOUT_THINKING_CONFIG.test(model) && { thinkingConfig: { thinkingBudget: 0 } }),
    },
  }
}

function toTools({ tools = [], toolChoice = 'auto', parallelToolCalls }: GenerationOptions): object {
  if (tools.length === 0) {
    if (toolChoice === 'auto' || toolChoice === 'none') return {}
    throw new ProviderError('bad_request', '`tool_choice` requires a tool, but `tools` is empty.')
  }
  if (parallelToolCalls === false) {
    throw new ProviderError('bad_request', 'This provider does not support `parallel_tool_calls: false`.')
  }
  return {
    tools: [{ functionDeclarations: tools.map(toDeclaration) }],
    toolConfig: { functionCallingConfig: toCallingConfig(toolChoice, tools) },
  }
}

function toDeclaration({ name, description, parameters, native }: Tool): object {
  if (native) {
    throw new ProviderError('bad_request', `The provider does not support tools of type ${native.definition.type}.`)
  }
  return { name, description, parametersJsonSchema: parameters }
}

/** The modes VALIDATED and ANY enforce the schemas, as `strict` requires. */
function toCallingConfig(choice: ToolChoice, tools: readonly Tool[]): object {
  if (typeof choice === 'object') return { mode: 'ANY', allowedFunctionNames: [choice.name] }
  if (choice === 'required') return { mode: 'ANY' }
  if (choice === 'none') return { mode: 'NONE' }
  return { mode: tools.some(({ strict }) => strict) ? 'VALIDATED' : 'AUTO' }
}

function toResponseFormat(format: ResponseFormat): object {
  if (format.type === 'text') return {}
  if (format.type === 'json_object') return { responseMimeType: 'application/json' }
  const { schema, description } = format
  return {
    responseMimeType: 'application/json',
    responseJsonSchema: description === undefined ? schema : { description, ...schema },
  }
}

function toThinking(model: string, effort: string): object {
  if (BEFORE_GEMINI_3.test(model)) {
    const thinkingBudget = THINKING_BUDGETS.get(effort)
    if (thinkingBudget !== undefined) return { thinkingBudget, includeThoughts: thinkingBudget > 0 }
  } else if (THINKING_LEVELS.has(effort)) {
    return { thinkingLevel: effort, includeThoughts: true }
  }
  throw new ProviderError('bad_request', 'The model does not support this reasoning effort.')
}
