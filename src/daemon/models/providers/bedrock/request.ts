import type { CacheMark, GenerationOptions, System, Tool, ToolChoice } from '../../conversation.ts'
import type { ProviderCall } from '../../provider.ts'
import { hasFixedTemperature, nativeOf } from '../anthropic/request.ts'
import { type BedrockMessage, badRequest, toBedrockMessages, toCachePoint, toTexts } from './messages.ts'
import { toModelFields } from './model-fields.ts'
import { cachesPrompts } from './supported.ts'

/**
 * Returns the body of Converse and ConverseStream for a call (API_runtime_Converse). The end user's name is not sent,
 * because the API has no field for it.
 * @throws ProviderError `bad_request` for options that the API does not support
 */
export function toBedrockRequest(call: ProviderCall): object {
  const { model, system, messages, temperature, temperatureIsDefault, maxTokens, options = {} } = call
  rejectUnknownOptions(options, temperature)
  const caches = cachesPrompts(model)
  const turns = toBedrockMessages(messages, caches)
  // Anthropic's automatic caching marks the last block of the request.
  const automatic = caches ? (nativeOf(options)?.fields.cache_control as CacheMark | undefined) : undefined
  if (automatic) turns.at(-1)?.content.push(...toCachePoint(automatic))
  const modelFields = toModelFields(call)
  const schema = toSchema(options.responseFormat)
  return {
    messages: turns,
    ...(system.length > 0 && { system: toSystem(system, caches) }),
    inferenceConfig: {
      maxTokens,
      temperature: temperatureIsDefault && hasFixedTemperature(model) ? undefined : temperature,
      topP: options.topP,
      stopSequences: options.stop?.length ? options.stop : undefined,
    },
    ...toToolConfig(options, turns, caches),
    ...(schema && { outputConfig: { textFormat: { type: 'json_schema', structure: { jsonSchema: schema } } } }),
    ...(modelFields && { additionalModelRequestFields: modelFields }),
  }
}

const toSystem = (system: System, caches: boolean): object[] =>
  typeof system === 'string'
    ? [{ text: system }]
    : toTexts(caches ? system : system.map(({ type, text }) => ({ type, text })))

/**
 * Rejects unsupported options. Penalties of 0 and `logprobs: false` are accepted, because they have no effect and many
 * clients always send them.
 */
function rejectUnknownOptions(options: GenerationOptions, temperature = 0): void {
  const asked = {
    frequency_penalty: Boolean(options.frequencyPenalty),
    presence_penalty: Boolean(options.presencePenalty),
    seed: options.seed !== undefined,
    logprobs: options.logprobs === true,
    top_logprobs: Boolean(options.topLogprobs),
    'response_format json_object': options.responseFormat?.type === 'json_object',
    'temperature over 1': temperature > 1,
  }
  const unknown = Object.entries(asked).flatMap(([name, isAsked]) => (isAsked ? [name] : []))
  if (unknown.length > 0) throw badRequest(`does not support ${unknown.join(', ')}`)
}

/**
 * The API has no tool choice `none`. Omitting the tools has the same effect, but the tools are required if the
 * conversation contains tool calls.
 */
function toToolConfig(
  { tools = [], toolChoice = 'auto' }: GenerationOptions,
  turns: readonly BedrockMessage[],
  caches: boolean,
): object {
  if (tools.length === 0) {
    if (toolChoice === 'auto' || toolChoice === 'none') return {}
    throw badRequest('cannot apply tool_choice without tools')
  }
  if (toolChoice === 'none') {
    const isUsed = turns.some(({ content }) => content.some((block) => 'toolUse' in block || 'toolResult' in block))
    if (isUsed) throw badRequest('does not support tool_choice none after tool calls')
    return {}
  }
  const offered = tools.flatMap((tool) => [toTool(tool), ...(caches ? toCachePoint(tool.cache) : [])])
  return { toolConfig: { tools: offered, toolChoice: toToolChoice(toolChoice) } }
}

function toTool({ name, description, parameters, strict, native }: Tool): object {
  if (native) throw badRequest(`does not support tools of type ${native.definition.type}`)
  const inputSchema = { json: { type: 'object', ...parameters } }
  return { toolSpec: { name, ...(description && { description }), inputSchema, ...(strict && { strict }) } }
}

/** `auto` is omitted: it is the default, and some models reject an explicit `auto`. */
function toToolChoice(choice: Exclude<ToolChoice, 'none'>): object | undefined {
  if (choice === 'auto') return undefined
  return choice === 'required' ? { any: {} } : { tool: { name: choice.name } }
}

/** The API always enforces schemas, so it has no field for `strict`. */
function toSchema(format: GenerationOptions['responseFormat']): object | undefined {
  if (format?.type !== 'json_schema') return undefined
  const { name, description, schema } = format
  return { name, description, schema: JSON.stringify(schema) }
}
