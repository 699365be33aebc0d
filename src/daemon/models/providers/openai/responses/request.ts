// Converts calls to requests of OpenAI's Responses API.

import { isObject } from '../../../../platform/text/json.ts'
import {
  type Content,
  type ContentPart,
  citedText,
  type GenerationOptions,
  type Message,
  OPENAI_ORIGIN,
  RESPONSES_ORIGIN,
  type ResponseFormat,
  systemText,
  type Tool,
} from '../../../conversation.ts'
import { grammarOf, toCustomInput } from '../../../custom-tools.ts'
import { type ProviderCall, ProviderError } from '../../../provider.ts'
import { fileName, toDataUrl } from '../messages.ts'
import { hasCustomTools, nativeFields, WEB_SEARCH, withNative } from '../native.ts'
import type { Ability, Profile } from '../profiles.ts'
import { isCustom, refuseWhatLacks } from '../request.ts'

/** The options of chat completions that the Responses API does not have. */
const LACKS: readonly Ability[] = ['stop', 'seed', 'penalties', 'top_k']

/**
 * Returns the body of POST /responses for a call. The server never stores the answer: the gateway sends the
 * whole conversation each time.
 * @throws ProviderError `bad_request` for options that the API or the model does not support
 */
export function toResponsesRequest(call: ProviderCall, profile: Profile): object {
  const { model, system, temperature, temperatureIsDefault, maxTokens, stream, options = {} } = call
  const instructions = systemText(system)
  refuseWhatLacks(call, { ...profile, lacks: [...profile.lacks, ...LACKS] })
  const isSent = !(profile.fixedTemperature && temperatureIsDefault)
  return {
    model,
    ...(instructions !== '' && { instructions }),
    input: toInput(call, profile),
    max_output_tokens: maxTokens,
    temperature: isSent ? temperature : undefined,
    stream,
    store: false,
    ...(options.native ? toAllFields(call, profile) : toFields(options, profile)),
  }
}

/** Returns the fields of the options, with the native options. */
function toAllFields({ model, options = {}, noTraining }: ProviderCall, profile: Profile): object {
  const native = nativeFields(options, { api: RESPONSES_ORIGIN, model, profile, noTraining }) ?? {}
  const { text, reasoning, ...own } = toFields(options, profile) as Record<string, object | undefined>
  const all = withNative({}, own) as Record<string, unknown>
  const groups: Record<string, Record<string, unknown>> = { text: { ...text }, reasoning: { ...reasoning } }
  const included = Object.entries(native).flatMap(([name, value]) => (INCLUDED.test(name) ? [value] : []))
  if (included.length > 0) all.include = [...((all.include as unknown[] | undefined) ?? []), ...included]
  for (const [name, value] of Object.entries(native)) {
    if (INCLUDED.test(name)) continue
    const [, group = '', member = ''] = GROUPED.exec(name) ?? []
    const members = groups[group]
    if (members) members[member] ??= value
    else if (!Object.hasOwn(all, name)) Object.defineProperty(all, name, { value, enumerable: true })
  }
  const filled = Object.entries(groups).filter(([, members]) => Object.keys(members).length > 0)
  return { ...all, ...Object.fromEntries(filled) }
}

/** The name of an option that is a member of another option. */
const GROUPED = /^(text|reasoning)\.(.+)$/
/** The name of an option that is an entry of `include`. */
const INCLUDED = /^include\[/

function toFields(options: GenerationOptions, profile: Profile): object {
  const { responseFormat: format, reasoningEffort: effort, logprobs } = options
  const tools = [...(options.tools ?? []).map(toTool), ...toWebSearch(options)]
  const include = [
    // Other models reject this value.
    ...(profile.fixedTemperature ? ['reasoning.encrypted_content'] : []),
    ...(logprobs ? ['message.output_text.logprobs'] : []),
  ]
  return {
    ...(tools.length > 0 && {
      tools,
      tool_choice: toToolChoice(options),
      parallel_tool_calls: options.parallelToolCalls,
    }),
    ...(format && { text: { format: toFormat(format) } }),
    top_p: profile.lacks.includes('top_p') ? undefined : options.topP,
    top_logprobs: options.topLogprobs,
    user: profile.refusesUser ? undefined : options.user,
    ...(effort !== undefined && { reasoning: { effort } }),
    ...(include.length > 0 && { include }),
  }
}

/** The API's own default for `strict` is true, which rejects many schemas. */
function toTool({ name, description, parameters = {}, strict = false, custom, native }: Tool): object {
  if (native?.origin === RESPONSES_ORIGIN) return native.definition
  if (native) {
    throw new ProviderError('bad_request', `The provider does not support tools of type ${native.definition.type}.`)
  }
  if (custom) return { type: 'custom', name, description, format: toCustomFormat(custom) }
  return { type: 'function', name, description, parameters, strict }
}

function toCustomFormat({ format }: NonNullable<Tool['custom']>): object | undefined {
  return format?.type === 'grammar' ? { type: 'grammar', ...grammarOf(format) } : format
}

/** The search of chat completions is a tool here. */
function toWebSearch({ native }: GenerationOptions): object[] {
  const asked = native?.origin === OPENAI_ORIGIN ? native.fields[WEB_SEARCH] : undefined
  if (!isObject(asked)) return []
  const { user_location: location, ...others } = asked
  const place = isObject(location) && isObject(location.approximate) ? location.approximate : undefined
  return [{ type: 'web_search', ...others, ...(place && { user_location: { type: 'approximate', ...place } }) }]
}

function toToolChoice({ toolChoice: choice, allowedTools, tools }: GenerationOptions): object | string | undefined {
  const named = (name: string) => ({ type: isCustom(name, tools) ? 'custom' : 'function', name })
  if (allowedTools) return { type: 'allowed_tools', mode: choice ?? 'auto', tools: allowedTools.map(named) }
  return typeof choice === 'object' ? named(choice.name) : choice
}

const toFormat = (format: ResponseFormat): object => format

function toInput({ messages, model }: ProviderCall, profile: Profile): object[] {
  const hasCustom = hasCustomTools(model, profile)
  const calls = messages.flatMap((message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : []))
  const custom = new Set(calls.flatMap((call) => (call.isCustom && hasCustom ? call.id : [])))
  return messages.flatMap((message) => toItems(message, profile, custom))
}

/** @param custom the ids of calls of custom tools */
function toItems(message: Message, { origin }: Profile, custom: ReadonlySet<string>): object[] {
  if (message.role !== 'assistant') {
    const steps = stepsIn(message.content)
    if (steps.length > 0) return steps
  }
  if (message.role === 'user') return [{ role: 'user', content: toContent(message.content) }]
  if (message.role === 'tool') {
    const { toolCallId: call_id } = message
    const type = custom.has(call_id) ? 'custom_tool_call_output' : 'function_call_output'
    return [{ type, call_id, output: toContent(message.content) }]
  }
  const { content, reasoning = [], toolCalls = [] } = message
  // Only encrypted reasoning of the same server is accepted.
  const steps = reasoning.flatMap((step) =>
    step.origin === origin && step.data !== undefined
      ? [{ type: 'reasoning', summary: toSummary(step.text), encrypted_content: step.data }]
      : [],
  )
  const calls = toolCalls.map((call) => {
    const { id: call_id, name, arguments: text } = call
    return custom.has(call_id)
      ? { type: 'custom_tool_call', call_id, name, input: toCustomInput(call) }
      : { type: 'function_call', call_id, name, arguments: text }
  })
  return [...steps, ...toAnswerItems(content), ...calls]
}

/** Texts and steps of the model, in order. Adjacent texts are one message. */
function toAnswerItems(content: Content): object[] {
  const items: object[] = []
  let text = ''
  function endText(): void {
    if (text !== '') items.push({ role: 'assistant', content: text })
    text = ''
  }
  for (const part of typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content) {
    const step = stepOf(part)
    if (step) {
      endText()
      items.push(step)
    } else text += toAnswerText(part)
  }
  endText()
  return items
}

const stepsIn = (content: Content): object[] =>
  typeof content === 'string' ? [] : content.flatMap((part) => stepOf(part) ?? [])

/** Returns a step of a tool of OpenAI. Undefined for parts of a message. */
function stepOf(part: ContentPart): object | undefined {
  if (part.type !== 'native' || part.origin !== RESPONSES_ORIGIN || part.block.type.startsWith('input_'))
    return undefined
  if (part.block.type !== 'web_search_call') return part.block
  // Without storing, the API has no search with this id, and accepts the step only without one.
  const { id: _, ...step } = part.block
  return step
}

/** Returns the text of a part of an answer. The API accepts nothing else in the model's own messages. */
function toAnswerText(part: ContentPart): string {
  const text = part.type === 'native' ? citedText(part) : part
  if (text?.type === 'text') return text.text
  throw unsupportedBlock(part.type === 'native' ? part.block.type : part.type)
}

const unsupportedBlock = (type: string) =>
  new ProviderError('bad_request', `The provider does not support blocks of type ${type}.`)

const toSummary = (text: string) => (text === '' ? [] : [{ type: 'summary_text', text }])

function toContent(content: Content): string | object[] {
  return typeof content === 'string' ? content : content.map(toPart)
}

function toPart(part: ContentPart): object {
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text }
    case 'image':
      return { type: 'input_image', image_url: toDataUrl(part), detail: part.detail ?? 'auto' }
    case 'image_url':
      return { type: 'input_image', image_url: part.url, detail: part.detail ?? 'auto' }
    case 'file':
      if (part.mediaType.startsWith('audio/')) throw unsupportedBlock('input_audio')
      return { type: 'input_file', filename: fileName(part), file_data: toDataUrl(part) }
    case 'file_url':
      return { type: 'input_file', file_url: part.url }
    case 'native': {
      const text = citedText(part)
      if (text) return toPart(text)
      if (part.origin === RESPONSES_ORIGIN) return part.block
      // A file of chat completions that the provider stores.
      if (part.origin === OPENAI_ORIGIN && part.block.type === 'file') {
        return { type: 'input_file', ...(part.block.file as object) }
      }
      throw unsupportedBlock(part.block.type)
    }
    default:
      return part satisfies never
  }
}
