// Converts calls to requests of OpenAI's Responses API.
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
import { type ProviderCall, ProviderError } from '../../../provider.ts'
import { fileName, toDataUrl } from '../messages.ts'
import { nativeFields, withNative } from '../native.ts'
import type { Ability, Profile } from '../profiles.ts'
import { refuseWhatLacks } from '../request.ts'

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
    input: call.messages.flatMap((message) => toItems(message, profile)),
    max_output_tokens: maxTokens,
    temperature: isSent ? temperature : undefined,
    stream,
    store: false,
    ...(options.native ? toAllFields(call, profile) : toFields(options, profile)),
  }
}

/** Returns the fields of the options, with the native options. */
function toAllFields({ options = {}, noTraining }: ProviderCall, profile: Profile): object {
  const native = nativeFields(options, { api: RESPONSES_ORIGIN, profile, noTraining }) ?? {}
  const { text, reasoning, ...own } = toFields(options, profile) as Record<string, object | undefined>
  const all = withNative({}, own) as Record<string, unknown>
  const groups: Record<string, Record<string, unknown>> = { text: { ...text }, reasoning: { ...reasoning } }
  for (const [name, value] of Object.entries(native)) {
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

function toFields(options: GenerationOptions, profile: Profile): object {
  const { responseFormat: format, reasoningEffort: effort, logprobs } = options
  const hasTools = (options.tools?.length ?? 0) > 0
  const include = [
    // Other models reject this value.
    ...(profile.fixedTemperature ? ['reasoning.encrypted_content'] : []),
    ...(logprobs ? ['message.output_text.logprobs'] : []),
  ]
  return {
    ...(hasTools && {
      tools: options.tools?.map(toTool),
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
function toTool({ name, description, parameters = {}, strict = false, native }: Tool): object {
  if (native) {
    throw new ProviderError('bad_request', `The provider does not support tools of type ${native.definition.type}.`)
  }
  return { type: 'function', name, description, parameters, strict }
}

function toToolChoice({ toolChoice: choice, allowedTools }: GenerationOptions): object | string | undefined {
  if (allowedTools) {
    return {
      type: 'allowed_tools',
      mode: choice ?? 'auto',
      tools: allowedTools.map((name) => ({ type: 'function', name })),
    }
  }
  return typeof choice === 'object' ? { type: 'function', name: choice.name } : choice
}

const toFormat = (format: ResponseFormat): object => format

function toItems(message: Message, { origin }: Profile): object[] {
  if (message.role === 'user') return [{ role: 'user', content: toContent(message.content) }]
  if (message.role === 'tool') {
    return [{ type: 'function_call_output', call_id: message.toolCallId, output: toContent(message.content) }]
  }
  const { content, reasoning = [], toolCalls = [] } = message
  // Only encrypted reasoning of the same server is accepted.
  const steps = reasoning.flatMap((step) =>
    step.origin === origin && step.data !== undefined
      ? [{ type: 'reasoning', summary: toSummary(step.text), encrypted_content: step.data }]
      : [],
  )
  const calls = toolCalls.map(({ id, name, arguments: text }) => ({
    type: 'function_call',
    call_id: id,
    name,
    arguments: text,
  }))
  const text = typeof content === 'string' ? content : content.map(toAnswerText).join('')
  return [...steps, ...(text === '' ? [] : [{ role: 'assistant', content: text }]), ...calls]
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
