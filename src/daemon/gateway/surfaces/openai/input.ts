import { invalidField } from '../../../../shared/errors.ts'
import { ZERO_KNOWLEDGE } from '../../../../shared/wire/indexes.ts'
import type { OpenAiChatRequest } from '../../../../shared/wire/openai.ts'
import {
  type Content,
  type ContentPart,
  EARLIER_AUDIO,
  EARLIER_AUDIO_BLOCK,
  type GenerationOptions,
  type Message,
  OPENAI_ORIGIN,
  type Reasoning,
  type ResponseFormat,
  type ToolCall,
} from '../../../models/conversation.ts'
import { toCustomArguments } from '../../../models/custom-tools.ts'
import { askedOptions, type ChatInput, makerOf, requireModel, toChoices } from '../../chat/input.ts'
import { toFile, toImage } from '../data-url.ts'
import { Marks, toNative } from './native.ts'
import { type CallStyle, type Tools, toTools } from './tools.ts'

type InputMessage = OpenAiChatRequest['messages'][number]
type MessageFrom<Role extends InputMessage['role']> = Extract<InputMessage, { role: Role }>

/** A request, and how its answer shows calls of tools. */
export type OpenAiInput = { input: ChatInput; style: CallStyle | undefined }

/**
 * Converts a body of POST /v1/chat/completions to the pipeline's input. Does not set a default temperature, because
 * some models reject every temperature.
 * @throws MODEL_REQUIRED, VALIDATION_ERROR
 */
export function toOpenAiInput(request: OpenAiChatRequest): OpenAiInput {
  requireModel(request)
  const marks = new Marks()
  const tools = toTools(request, marks)
  const conversation = toConversation(request, marks)
  if (request.stream_options) marks.addUnknown('stream_options', request.stream_options, STREAM_OPTIONS)
  const native = toNative(request, marks)
  const uses = marks.uses(native)
  const { dropped } = marks
  const input: ChatInput = {
    conversation,
    chain: request,
    index: ZERO_KNOWLEDGE,
    useRag: false,
    policy: request.smltp_policy,
    shield: request.prompt_shield,
    userId: request.user_id,
    conversationId: undefined,
    cacheKey: request.prompt_cache_key,
    temperature: request.temperature,
    maxTokens: request.max_completion_tokens ?? request.max_tokens,
    ...(request.max_completion_tokens !== undefined && { fields: { maxTokens: 'max_completion_tokens' } }),
    stream: request.stream ?? false,
    options: toOptions(request, { ...tools, native }),
    ...(dropped.length > 0 && { dropped }),
    ...(uses && { uses }),
  }
  return { input, style: tools.style }
}

const STREAM_OPTIONS = new Set(['include_usage'])

/** Instructions may appear anywhere in the messages. They are moved to the beginning, in order. */
function toConversation(request: OpenAiChatRequest, marks: Marks): ChatInput['conversation'] {
  const system: string[] = []
  const messages: Message[] = []
  const maker = makerOf(request)
  /** The last call in the older form, which has no id. */
  let oldCall: ToolCall | undefined
  for (const [at, message] of request.messages.entries()) {
    marks.addUnknown('messages', message, MEMBERS[message.role])
    if (message.role === 'system' || message.role === 'developer') {
      system.push(toText(message.content, marks))
      // All instructions become one system prompt, which has no speaker.
      if (message.name !== undefined) marks.drop('messages.name')
    } else if (message.role === 'function') {
      if (oldCall?.name !== message.name) {
        throw invalidField(
          'messages',
          'A message of the role function must follow the `function_call` that it answers.',
        )
      }
      messages.push({ role: 'tool', toolCallId: oldCall.id, content: message.content ?? '' })
      oldCall = undefined
    } else if (message.role === 'assistant') {
      const { function_call: called } = message
      oldCall = called && { id: `call_${at}`, name: called.name, arguments: called.arguments }
      messages.push(toAnswer(message, { maker, oldCall, marks }))
    } else if (message.role === 'tool') {
      messages.push({ role: 'tool', toolCallId: message.tool_call_id, content: toContent(message.content, marks) })
    } else {
      messages.push({ role: 'user', content: toContent(message.content, marks), ...namedIn(message, marks) })
    }
  }
  if (messages.length === 0)
    throw invalidField('messages', 'Send at least one message in addition to the instructions.')
  return { system: system.join('\n\n'), messages }
}

/** The members of a message that are read. */
const MEMBERS: Record<InputMessage['role'], ReadonlySet<string>> = {
  system: new Set(['role', 'content', 'name']),
  developer: new Set(['role', 'content', 'name']),
  user: new Set(['role', 'content', 'name']),
  assistant: new Set([
    ...['role', 'content', 'name', 'refusal', 'audio', 'tool_calls', 'function_call'],
    ...['reasoning_content', 'reasoning_details'],
  ]),
  tool: new Set(['role', 'content', 'tool_call_id']),
  function: new Set(['role', 'content', 'name']),
}

function namedIn({ name }: { name?: string | undefined }, marks: Marks): { name?: string } {
  if (name === undefined || name === '') return {}
  marks.add('messages.name')
  return { name }
}

function toAnswer(
  message: MessageFrom<'assistant'>,
  { maker, oldCall, marks }: { maker: string; oldCall: ToolCall | undefined; marks: Marks },
): Message {
  const reasoning = toReasoning(message, maker)
  const toolCalls = oldCall ? [oldCall] : (message.tool_calls ?? []).map(toToolCall)
  const text = toText(message.content ?? message.refusal ?? '', marks)
  return {
    role: 'assistant',
    content: message.audio ? withAudio(text, message.audio, marks) : text,
    ...namedIn(message, marks),
    ...(toolCalls.length > 0 && { toolCalls }),
    ...(reasoning.length > 0 && { reasoning }),
  }
}

const AUDIO = new Set(['id', 'data', 'transcript', 'expires_at'])

/** The provider has stored the audio of its earlier answer. Clients may repeat its data and transcript. */
function withAudio(text: string, audio: { id: string }, marks: Marks): ContentPart[] {
  marks.addUnknown('messages.audio', audio, AUDIO)
  marks.addRequired(EARLIER_AUDIO)
  const block = { type: EARLIER_AUDIO_BLOCK, id: audio.id }
  return [...(text === '' ? [] : [{ type: 'text' as const, text }]), { type: 'native', origin: OPENAI_ORIGIN, block }]
}

const toToolCall = (call: NonNullable<MessageFrom<'assistant'>['tool_calls']>[number]): ToolCall =>
  call.type === 'custom'
    ? { id: call.id, name: call.custom.name, arguments: toCustomArguments(call.custom.input), isCustom: true }
    : { id: call.id, name: call.function.name, arguments: call.function.arguments }

type TextParts = string | readonly ({ type: 'text'; text: string } | { type: 'refusal'; refusal: string })[]

function toText(content: TextParts, marks: Marks): string {
  if (typeof content === 'string') return content
  for (const part of content) marks.addUnknown('messages.content', part, PARTS)
  return content.map((part) => (part.type === 'text' ? part.text : part.refusal)).join('')
}

type Part = Exclude<MessageFrom<'user'>['content'], string>[number]

function toContent(content: string | readonly Part[], marks: Marks): Content {
  if (typeof content === 'string') return content
  const parts = content.map((part) => toPart(part, marks))
  const [only] = parts
  return parts.length === 1 && only?.type === 'text' ? only.text : parts
}

const IMAGE = new Set(['url', 'detail'])
const PARTS = new Set(['type', 'text', 'refusal', 'image_url', 'input_audio', 'file'])

function toPart(part: Part, marks: Marks): ContentPart {
  marks.addUnknown('messages.content', part, PARTS)
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text }
    case 'image_url': {
      marks.addUnknown('messages.content.image_url', part.image_url, IMAGE)
      const { url, detail } = part.image_url
      const image = toImage('messages', url, detail)
      if (image.type === 'image_url') marks.addAddress()
      if (detail !== undefined && detail !== 'auto') marks.add('image_url.detail')
      return image
    }
    case 'input_audio': {
      const { data, format } = part.input_audio
      return { type: 'file', mediaType: `audio/${format}`, data }
    }
    case 'file': {
      const { file_data: data, file_id: id, filename } = part.file
      if (data !== undefined) return toFile('messages', data, filename)
      const file = { file_id: id, ...(filename !== undefined && { filename }) }
      return { type: 'native', origin: OPENAI_ORIGIN, block: { type: 'file', file } }
    }
    default:
      return part satisfies never
  }
}

function toReasoning(
  { reasoning_content: text, reasoning_details: details = [] }: MessageFrom<'assistant'>,
  maker: string,
): Reasoning[] {
  if (details.length > 0) return details.map((detail) => ({ ...detail, text: detail.text ?? '' }))
  return text === undefined || text === '' ? [] : [{ origin: maker, text }]
}

function toOptions(
  request: OpenAiChatRequest,
  { offered, choice, allowed, native }: Omit<Tools, 'style'> & Pick<GenerationOptions, 'native'>,
): GenerationOptions | undefined {
  const { stop, response_format: format } = request
  return askedOptions({
    tools: offered,
    toolChoice: choice,
    allowedTools: allowed,
    parallelToolCalls: request.parallel_tool_calls,
    responseFormat: format && toResponseFormat(format),
    stop: typeof stop === 'string' ? [stop] : stop,
    topP: request.top_p,
    frequencyPenalty: request.frequency_penalty,
    presencePenalty: request.presence_penalty,
    seed: request.seed,
    choices: toChoices(request.n),
    logprobs: request.logprobs,
    topLogprobs: request.top_logprobs,
    user: request.user,
    reasoningEffort: request.reasoning_effort,
    native,
  })
}

function toResponseFormat(format: NonNullable<OpenAiChatRequest['response_format']>): ResponseFormat {
  if (format.type !== 'json_schema') return format
  const { name, schema = {}, strict, description } = format.json_schema
  return { type: 'json_schema', name, schema, strict, description }
}
