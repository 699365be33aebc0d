import type { GenerationOptions, NativeOptions, System, Tool } from '../../conversation.ts'
import type { ProviderCall } from '../../provider.ts'
import { ANTHROPIC_ORIGIN, badRequest, toAnthropicMessages, toTextBlocks } from './messages.ts'
import { leastThinkingTokens, THINKING_MIN_TOKENS } from './thinking-models.ts'

/**
 * Returns the body of POST /v1/messages for a call.
 * @throws ProviderError `bad_request` for options that the API does not support
 */
export function toAnthropicRequest(call: ProviderCall): object {
  const { model, system, messages, temperature, temperatureIsDefault, maxTokens, stream, options = {} } = call
  refuseUnknown(options, temperature)
  const { thinking, effort } = thinkingOf(call)
  const format = toFormat(options.responseFormat)
  const { output_config, metadata, ...fields } = nativeOf(options)?.fields ?? {}
  const outputConfig = output_config as object | undefined
  return {
    ...fields,
    model,
    max_tokens: maxTokens,
    ...toSystem(system),
    messages: toAnthropicMessages(messages),
    temperature: temperatureIsDefault && hasFixedTemperature(model) ? undefined : temperature,
    top_p: options.topP,
    top_k: options.topK,
    stop_sequences: options.stop?.length ? options.stop : undefined,
    ...toTools(options),
    thinking,
    ...((format ?? effort ?? outputConfig) && { output_config: { ...outputConfig, format, effort } }),
    ...((metadata ?? options.user) !== undefined && { metadata: { ...(metadata as object), user_id: options.user } }),
    stream,
  }
}

/** The options of a request in Anthropic's own form. */
export const nativeOf = ({ native }: GenerationOptions = {}): NativeOptions | undefined =>
  native?.origin === ANTHROPIC_ORIGIN ? native : undefined

function toSystem(system: System): { system?: string | object[] } {
  if (system.length === 0) return {}
  return { system: typeof system === 'string' ? system : toTextBlocks(system) }
}

/** Sends the thinking options unchanged if the request contains them in Anthropic's form. */
export function thinkingOf({ model, maxTokens, options = {} }: Pick<ProviderCall, 'model' | 'maxTokens' | 'options'>): {
  thinking?: object | undefined
  effort?: string | undefined
} {
  const native = nativeOf(options)?.thinking
  if (native) return { thinking: native.config, effort: native.effort }
  return toThinking(model, options.noReasoning ? 'none' : options.reasoningEffort, maxTokens)
}

const MODEL_READABLE = ['model', 'system', 'messages', 'tools', 'tool_choice', 'thinking', 'output_config'] as const

/**
 * Returns the body of POST /v1/messages/count_tokens for a call. Omits the generation options, because that route
 * rejects them.
 * @throws ProviderError as `toAnthropicRequest` does
 */
export function toCountRequest(call: ProviderCall): object {
  const request = new Map(Object.entries(toAnthropicRequest(call)))
  const names = [...MODEL_READABLE, ...Object.keys(nativeOf(call.options)?.fields ?? {})]
  return Object.fromEntries(names.map((name) => [name, request.get(name)]))
}

/**
 * Rejects unsupported options. Penalties of 0 and `logprobs: false` are accepted, because they have no effect and many
 * clients always send them.
 */
function refuseUnknown(options: GenerationOptions, temperature = 0): void {
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

function toTools({ tools = [], toolChoice, parallelToolCalls }: GenerationOptions): object {
  if (tools.length === 0) {
    if (toolChoice === 'required' || typeof toolChoice === 'object')
      throw badRequest('cannot apply tool_choice without tools')
    return {}
  }
  return { tools: tools.map(toTool), tool_choice: toToolChoice(toolChoice, parallelToolCalls) }
}

function toTool({ name, description, parameters, strict, cache, native, extra }: Tool): object {
  if (native) {
    if (native.origin !== ANTHROPIC_ORIGIN) throw badRequest(`does not support tools of type ${native.definition.type}`)
    return { ...native.definition, ...(cache && { cache_control: cache }) }
  }
  return {
    name,
    description,
    input_schema: { type: 'object', ...parameters },
    ...(strict && { strict }),
    ...(extra?.origin === ANTHROPIC_ORIGIN && extra.members),
    ...(cache && { cache_control: cache }),
  }
}

const CHOICES = { auto: 'auto', none: 'none', required: 'any' } as const

function toToolChoice(choice: GenerationOptions['toolChoice'], parallel: boolean | undefined): object | undefined {
  const isSingle = parallel === false && choice !== 'none'
  if (choice === undefined && !isSingle) return undefined
  return {
    ...(typeof choice === 'object' ? { type: 'tool', name: choice.name } : { type: CHOICES[choice ?? 'auto'] }),
    ...(isSingle && { disable_parallel_tool_use: true }),
  }
}

/** The API has no field for the name of a schema, and expects its description inside the schema. */
function toFormat(format: GenerationOptions['responseFormat']): object | undefined {
  if (format?.type !== 'json_schema') return undefined
  const { description, schema } = format
  return { type: 'json_schema', schema: description === undefined ? schema : { description, ...schema } }
}

/**
 * Whether the model rejects a temperature, as Claude 4.7 and later do. In the names of the models that reject a
 * temperature, the version follows the family.
 */
export function hasFixedTemperature(model: string): boolean {
  const [, major = 0, minor = 0] = /claude-[a-z]+-(\d{1,2})(?:[.-](\d{1,2}))?(?!\d)/.exec(model)?.map(Number) ?? []
  return major > 4 || (major === 4 && minor >= 7)
}

/** For each effort: its name for models with adaptive thinking, and its share of `max_tokens` for older models. */
const EFFORTS = new Map([
  ['minimal', { effort: 'low', share: 0 }],
  ['low', { effort: 'low', share: 0.25 }],
  ['medium', { effort: 'medium', share: 0.5 }],
  ['high', { effort: 'high', share: 0.75 }],
  ['xhigh', { effort: 'xhigh', share: 0.9 }],
  ['max', { effort: 'max', share: 0.9 }],
])

/**
 * Returns the thinking options of a Claude model. Bedrock accepts the same form. `maxTokens` limits the thinking
 * budget.
 * @throws ProviderError `bad_request` if the effort is unknown, or if `maxTokens` leaves no tokens for thinking
 */
export function toThinking(
  model: string,
  asked: string | undefined,
  maxTokens: number | undefined,
): { thinking?: object; effort?: string } {
  if (asked === undefined) return {}
  if (asked === 'none') return { thinking: { type: 'disabled' } }
  const known = EFFORTS.get(asked)
  if (!known) throw badRequest(`accepts as reasoning_effort only none, ${[...EFFORTS.keys()].join(', ')}`)
  if (leastThinkingTokens(model) === 0) {
    // Requests summaries. By default, newer models do not stream their thinking, and the gateway could mistake the
    // silence for a stall.
    return { thinking: { type: 'adaptive', display: 'summarized' }, effort: known.effort }
  }
  if (maxTokens === undefined || maxTokens <= THINKING_MIN_TOKENS) {
    throw badRequest(`requires max_tokens above ${THINKING_MIN_TOKENS} for reasoning_effort with this model`)
  }
  const budget = Math.max(THINKING_MIN_TOKENS, Math.floor(maxTokens * known.share))
  return { thinking: { type: 'enabled', budget_tokens: budget } }
}
