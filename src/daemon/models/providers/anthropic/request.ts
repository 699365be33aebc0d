import type { GenerationOptions, Tool } from '../../conversation.ts'
import type { ProviderCall } from '../../provider.ts'
import { badRequest, toAnthropicMessages } from './messages.ts'
import { leastThinkingTokens, THINKING_MIN_TOKENS } from './thinking-models.ts'

/**
 * Returns the body of POST /v1/messages for a call.
 * @throws ProviderError `bad_request` for options that the API does not support
 */
export function toAnthropicRequest(call: ProviderCall): object {
  const { model, system, messages, temperature, temperatureIsDefault, maxTokens, stream, options = {} } = call
  refuseUnknown(options, temperature)
  const { thinking, effort } = toThinking(model, options.noReasoning ? 'none' : options.reasoningEffort, maxTokens)
  const format = toFormat(options.responseFormat)
  return {
    model,
    max_tokens: maxTokens,
    ...(system !== '' && { system }),
    messages: toAnthropicMessages(messages),
    temperature: temperatureIsDefault && hasFixedTemperature(model) ? undefined : temperature,
    top_p: options.topP,
    top_k: options.topK,
    stop_sequences: options.stop?.length ? options.stop : undefined,
    ...toTools(options),
    thinking,
    ...((format ?? effort) && { output_config: { format, effort } }),
    ...(options.user !== undefined && { metadata: { user_id: options.user } }),
    stream,
  }
}

const MODEL_READABLE = ['model', 'system', 'messages', 'tools', 'tool_choice', 'thinking', 'output_config'] as const

/**
 * Returns the body of POST /v1/messages/count_tokens for a call. Omits the generation options, because that route
 * rejects them.
 * @throws ProviderError as `toAnthropicRequest` does
 */
export function toCountRequest(call: ProviderCall): object {
  const request = new Map(Object.entries(toAnthropicRequest(call)))
  return Object.fromEntries(MODEL_READABLE.map((name) => [name, request.get(name)]))
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

function toTool({ name, description, parameters, strict }: Tool): object {
  return {
    name,
    description,
    input_schema: { type: 'object', ...parameters },
    ...(strict && { strict }),
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
