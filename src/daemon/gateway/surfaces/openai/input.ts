import { invalidField } from '../../../../shared/errors.ts'
import { ZERO_KNOWLEDGE } from '../../../../shared/wire/indexes.ts'
import type { OpenAiChatRequest } from '../../../../shared/wire/openai.ts'
import type { Content, GenerationOptions, Message, Reasoning, ResponseFormat } from '../../../models/conversation.ts'
import { askedOptions, type ChatInput, makerOf, requireModel } from '../../chat/input.ts'
import { toImage } from '../data-url.ts'

type InputMessage = OpenAiChatRequest['messages'][number]
type MessageFrom<Role extends InputMessage['role']> = Extract<InputMessage, { role: Role }>

/**
 * Converts a body of POST /v1/chat/completions to the pipeline's input. Does not set a default temperature, because
 * some models reject every temperature.
 * @throws MODEL_REQUIRED, VALIDATION_ERROR
 */
export function toChatInput(request: OpenAiChatRequest): ChatInput {
  requireModel(request)
  return {
    conversation: toConversation(request),
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
    options: toOptions(request),
  }
}

/** Instructions may appear anywhere in the messages. They are moved to the beginning, in order. */
function toConversation(request: OpenAiChatRequest): ChatInput['conversation'] {
  const system: string[] = []
  const messages: Message[] = []
  const maker = makerOf(request)
  for (const message of request.messages) {
    if (isInstruction(message)) system.push(toText(message.content))
    else messages.push(toMessage(message, maker))
  }
  if (messages.length === 0)
    throw invalidField('messages', 'Send at least one message in addition to the instructions.')
  return { system: system.join('\n\n'), messages }
}

type Instruction = Exclude<InputMessage, { role: 'user' | 'assistant' | 'tool' }>
const isInstruction = (message: InputMessage): message is Instruction =>
  message.role === 'system' || message.role === 'developer'

function toMessage(message: MessageFrom<'user' | 'assistant' | 'tool'>, maker: string): Message {
  switch (message.role) {
    case 'user':
      return { role: 'user', content: toContent(message.content) }
    case 'tool':
      return { role: 'tool', toolCallId: message.tool_call_id, content: toText(message.content) }
    case 'assistant': {
      const reasoning = toReasoning(message, maker)
      return {
        role: 'assistant',
        content: toText(message.content ?? ''),
        ...(message.tool_calls &&
          message.tool_calls.length > 0 && {
            toolCalls: message.tool_calls.map(({ id, function: { name, arguments: text } }) => ({
              id,
              name,
              arguments: text,
            })),
          }),
        ...(reasoning.length > 0 && { reasoning }),
      }
    }
    default:
      return message satisfies never
  }
}

type TextParts = string | readonly ({ type: 'text'; text: string } | { type: 'refusal'; refusal: string })[]

const toText = (content: TextParts): string =>
  typeof content === 'string'
    ? content
    : content.map((part) => (part.type === 'text' ? part.text : part.refusal)).join('')

function toContent(content: MessageFrom<'user'>['content']): Content {
  if (typeof content === 'string') return content
  return content.map((part) => (part.type === 'text' ? part : toImage('messages', part.image_url.url)))
}

function toReasoning(
  { reasoning_content: text, reasoning_details: details = [] }: MessageFrom<'assistant'>,
  maker: string,
): Reasoning[] {
  if (details.length > 0) return details.map((detail) => ({ ...detail, text: detail.text ?? '' }))
  return text === undefined || text === '' ? [] : [{ origin: maker, text }]
}

function toOptions(request: OpenAiChatRequest): GenerationOptions | undefined {
  const { stop, tool_choice: choice, response_format: format } = request
  return askedOptions({
    tools: request.tools?.map((tool) => tool.function),
    toolChoice: typeof choice === 'object' ? choice.function : choice,
    parallelToolCalls: request.parallel_tool_calls,
    responseFormat: format && toResponseFormat(format),
    stop: typeof stop === 'string' ? [stop] : stop,
    topP: request.top_p,
    frequencyPenalty: request.frequency_penalty,
    presencePenalty: request.presence_penalty,
    seed: request.seed,
    logprobs: request.logprobs,
    topLogprobs: request.top_logprobs,
    user: request.user,
    reasoningEffort: request.reasoning_effort,
  })
}

function toResponseFormat(format: NonNullable<OpenAiChatRequest['response_format']>): ResponseFormat {
  if (format.type !== 'json_schema') return format
  const { name, schema = {}, strict, description } = format.json_schema
  return { type: 'json_schema', name, schema, strict, description }
}
