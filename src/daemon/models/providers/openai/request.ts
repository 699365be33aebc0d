import { toJsonString } from '../../../platform/text/json-string.ts'
import {
  type GenerationOptions,
  type Message,
  OPENAI_ORIGIN,
  type ResponseFormat,
  systemText,
  type Tool,
} from '../../conversation.ts'
import { grammarOf } from '../../custom-tools.ts'
import { type ProviderCall, ProviderError } from '../../provider.ts'
import { toJson, toMessages } from './messages.ts'
import { nativeFields, withNative } from './native.ts'
import type { Ability, Profile } from './profiles.ts'

/**
 * Returns the body of POST /chat/completions for a call, as JSON. The JSON is written member by member: with a long
 * text and a few settings, a single JSON.stringify call takes more than twice as long.
 * @throws ProviderError `bad_request` for options that the server is known not to support; the message uses the
 * caller's option names
 */
export function toOpenAiRequest(call: ProviderCall, profile: Profile): string {
  const { model, temperature, temperatureIsDefault, maxTokens, stream, options, noTraining } = call
  refuseWhatLacks(call, profile)
  const system = systemText(call.system)
  const messages = toMessages(call, profile).map(toJson)
  if (system !== '') messages.unshift(toJson({ role: profile.systemRole, content: system }))
  let body = `{"model":${toJsonString(model)},"messages":[${messages.join()}]`
  if (maxTokens !== undefined) body += `,"${profile.tokensField}":${maxTokens}`
  const isSent = temperature !== undefined && !(profile.fixedTemperature && temperatureIsDefault)
  if (isSent) body += `,"temperature":${temperature}`
  body += `,"stream":${stream}`
  if (stream && profile.streamOptions) body += ',"stream_options":{"include_usage":true}'
  if (options?.native) return `${body}${membersOf(toAllFields(call, profile))}}`
  if (noTraining) body += membersOf(profile.noTrainingFields)
  return `${body}${options ? membersOf(toFields(options, profile)) : ''}}`
}

/** Returns the same body as a value, for a large call, whose JSON is written in steps. */
export function toOpenAiFields(call: ProviderCall, profile: Profile): object {
  const { model, temperature, temperatureIsDefault, maxTokens, stream, options, noTraining } = call
  refuseWhatLacks(call, profile)
  const system = systemText(call.system)
  const turns = toMessages(call, profile)
  const isSent = temperature !== undefined && !(profile.fixedTemperature && temperatureIsDefault)
  return {
    model,
    messages: system === '' ? turns : [{ role: profile.systemRole, content: system }, ...turns],
    [profile.tokensField]: maxTokens,
    temperature: isSent ? temperature : undefined,
    stream,
    stream_options: stream && profile.streamOptions ? { include_usage: true } : undefined,
    ...(options?.native
      ? toAllFields(call, profile)
      : { ...(noTraining && profile.noTrainingFields), ...(options && toFields(options, profile)) }),
  }
}

/** Returns the fields of the options, with the native options. */
function toAllFields({ model, options = {}, noTraining }: ProviderCall, profile: Profile): object {
  const native = nativeFields(options, { api: OPENAI_ORIGIN, model, profile, noTraining }) ?? {}
  return withNative(native, { ...(noTraining && profile.noTrainingFields), ...toFields(options, profile) })
}

/** Returns members to append to a non-empty object, such as `,"a":1`. */
function membersOf(fields: object): string {
  const json = JSON.stringify(fields)
  return json === '{}' ? '' : `,${json.slice(1, -1)}`
}

function toFields(options: GenerationOptions, profile: Profile): object {
  const lacks = (ability: Ability) => profile.lacks.includes(ability)
  const { reasoningEffort } = options
  const effort = profile.effortField === 'reasoning' ? reasoningEffort && { effort: reasoningEffort } : reasoningEffort
  const hasTools = options.tools !== undefined && options.tools.length > 0
  return {
    // Servers reject tool options if the request has no tools.
    ...(hasTools && {
      tools: options.tools?.map(toTool),
      tool_choice: toToolChoice(options),
      parallel_tool_calls: lacks('parallel_tool_calls') ? undefined : options.parallelToolCalls,
    }),
    response_format: toResponseFormat(options.responseFormat),
    stop: options.stop?.length === 0 ? undefined : options.stop,
    top_p: lacks('top_p') ? undefined : options.topP,
    top_k: options.topK,
    frequency_penalty: lacks('penalties') ? undefined : options.frequencyPenalty,
    presence_penalty: lacks('penalties') ? undefined : options.presencePenalty,
    [profile.seedField]: options.seed,
    logprobs: lacks('logprobs') ? undefined : options.logprobs,
    top_logprobs: options.topLogprobs,
    // The user's name does not affect the answer, so it is dropped for servers that do not support it.
    user: profile.refusesUser ? undefined : options.user,
    [profile.effortField]: effort,
    n: options.choices,
  }
}

/**
 * The options of this call that some servers do not support. If an option's value has no effect, the option is left
 * out. `parallel_tool_calls: false` is not among them, because the gateway applies it to the answer (`withOneCall`).
 */
function asked({ messages, options = {} }: ProviderCall): Ability[] {
  const asks: Record<Exclude<Ability, 'parallel_tool_calls'>, boolean> = {
    tools: (options.tools?.length ?? 0) > 0 || messages.some(isAboutTools),
    tool_choice: options.toolChoice !== undefined && options.toolChoice !== 'auto',
    json_object: options.responseFormat?.type === 'json_object',
    json_schema: options.responseFormat?.type === 'json_schema',
    images: messages.some(
      ({ content }) =>
        typeof content !== 'string' && content.some(({ type }) => type === 'image' || type === 'image_url'),
    ),
    stop: (options.stop?.length ?? 0) > 0,
    top_p: (options.topP ?? 1) !== 1,
    top_k: options.topK !== undefined,
    penalties: (options.frequencyPenalty ?? 0) !== 0 || (options.presencePenalty ?? 0) !== 0,
    seed: options.seed !== undefined,
    logprobs: options.logprobs === true || options.topLogprobs !== undefined,
    n: options.choices !== undefined,
  }
  return (Object.keys(asks) as (keyof typeof asks)[]).filter((ability) => asks[ability])
}

const isAboutTools = (message: Message) =>
  message.role === 'tool' || (message.role === 'assistant' && (message.toolCalls?.length ?? 0) > 0)

/** @throws ProviderError `bad_request` if the call uses an option that the profile lacks */
export function refuseWhatLacks(call: ProviderCall, { lacks, origin }: Pick<Profile, 'lacks' | 'origin'>): void {
  if (lacks.length === 0) return
  const missing = asked(call).filter((ability) => lacks.includes(ability))
  if (missing.length === 0) return
  throw new ProviderError('bad_request', `${origin} does not support ${missing.join(', ')} for this model.`)
}

function toTool({ name, description, parameters, strict, custom, native }: Tool): object {
  if (native) {
    throw new ProviderError('bad_request', `The provider does not support tools of type ${native.definition.type}.`)
  }
  if (custom) return { type: 'custom', custom: { name, description, format: toCustomFormat(custom) } }
  return { type: 'function', function: { name, description, parameters, strict } }
}

function toCustomFormat({ format }: NonNullable<Tool['custom']>): object | undefined {
  return format?.type === 'grammar' ? { type: 'grammar', grammar: grammarOf(format) } : format
}

function toToolChoice({ toolChoice: choice, allowedTools, tools }: GenerationOptions): object | string | undefined {
  const named = (name: string) =>
    isCustom(name, tools) ? { type: 'custom', custom: { name } } : { type: 'function', function: { name } }
  if (allowedTools) {
    return { type: 'allowed_tools', allowed_tools: { mode: choice ?? 'auto', tools: allowedTools.map(named) } }
  }
  return typeof choice === 'object' ? named(choice.name) : choice
}

/** Whether a tool of the request is a custom tool. */
export const isCustom = (name: string, tools: GenerationOptions['tools'] = []): boolean =>
  tools.some((tool) => tool.custom && tool.name === name)

function toResponseFormat(format: ResponseFormat | undefined): object | undefined {
  if (format?.type !== 'json_schema') return format
  const { type, ...schema } = format
  return { type, json_schema: schema }
}
