import {
  type GenerationOptions,
  type NativeOptions,
  type ResponseFormat,
  type System,
  systemText,
  type Tool,
  type ToolChoice,
} from '../../conversation.ts'
import { ORIGIN } from '../../part-signature.ts'
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
  const native = fieldsOf(nativeOf(options))
  return {
    ...native.ofRequest,
    ...toSystem(prompt, nativeOf(options) !== undefined),
    contents: toContents(messages, { signedCalls: !BEFORE_GEMINI_3.test(model) }),
    ...toTools(options, native.ofTools),
    generationConfig: {
      ...native.ofConfig,
      ...setMembers({
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
        ...(native.ofConfig.thinkingConfig === undefined && toThinkingConfig(model, options)),
      }),
    },
  }
}

/** An unset member must not hide the member of a request in Gemini's own form. */
const setMembers = (members: object): object =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))

/** The options of a request in Gemini's own form. */
export const nativeOf = ({ native }: GenerationOptions = {}): NativeOptions | undefined =>
  native?.origin === ORIGIN ? native : undefined

type Fields = Record<string, unknown>

/** Sorts the fields by the object that contains them. The first dot follows the name of this object. */
function fieldsOf(native: NativeOptions | undefined): { ofRequest: Fields; ofConfig: Fields; ofTools: Fields } {
  const sorted = { ofRequest: {} as Fields, ofConfig: {} as Fields, ofTools: {} as Fields }
  for (const [name, value] of Object.entries(native?.fields ?? {})) {
    const dot = name.indexOf('.')
    const member = name.slice(dot + 1)
    if (dot < 0) sorted.ofRequest[name] = value
    else if (name.slice(0, dot) === 'generationConfig') sorted.ofConfig[member] = value
    else sorted.ofTools[member] = value
  }
  return sorted
}

/** The parts of a request in Gemini's own form stay separate. */
function toSystem(prompt: System, isNative: boolean): object {
  if (isNative && typeof prompt !== 'string') {
    const parts = prompt.flatMap(({ text }) => (text === '' ? [] : [{ text }]))
    return parts.length === 0 ? {} : { systemInstruction: { parts } }
  }
  const text = systemText(prompt)
  return text === '' ? {} : { systemInstruction: { parts: [{ text }] } }
}

function toThinkingConfig(model: string, { reasoningEffort, noReasoning }: GenerationOptions): object {
  if (reasoningEffort !== undefined) return { thinkingConfig: toThinking(model, reasoningEffort) }
  return noReasoning && WITHOUT_THINKING_CONFIG.test(model) ? { thinkingConfig: { thinkingBudget: 0 } } : {}
}

function toTools({ tools = [], toolChoice = 'auto' }: GenerationOptions, toolConfig: Fields): object {
  if (tools.length === 0) {
    if (toolChoice === 'auto' || toolChoice === 'none')
      return Object.keys(toolConfig).length === 0 ? {} : { toolConfig }
    throw new ProviderError('bad_request', '`tool_choice` requires a tool, but `tools` is empty.')
  }
  const functions = tools.filter(({ native }) => !native)
  return {
    tools: [
      ...(functions.length > 0 ? [{ functionDeclarations: functions.map(toDeclaration) }] : []),
      ...tools.flatMap(({ native }) => (native ? toNativeTool(native) : [])),
    ],
    toolConfig: {
      // Google accepts a calling mode only together with functions.
      ...(functions.length > 0 && { functionCallingConfig: toCallingConfig(toolChoice, functions) }),
      ...toolConfig,
    },
  }
}

function toDeclaration({ name, description, parameters, extra }: Tool): object {
  return { name, description, parametersJsonSchema: parameters, ...(extra?.origin === ORIGIN && extra.members) }
}

/** A tool that Google runs, such as `googleSearch`. Its definition contains its type and its options. */
function toNativeTool({ origin, definition: { type, options } }: NonNullable<Tool['native']>): object {
  if (origin !== ORIGIN) {
    throw new ProviderError('bad_request', `The provider does not support tools of type ${type}.`)
  }
  return { [type]: options }
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
