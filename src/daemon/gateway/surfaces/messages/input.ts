import { ZERO_KNOWLEDGE } from '../../../../shared/wire/indexes.ts'
import type { MessagesRequest } from '../../../../shared/wire/messages.ts'
import type {
  Content,
  GenerationOptions,
  Message,
  Reasoning,
  ToolCall,
  ToolChoice,
} from '../../../models/conversation.ts'
import { askedOptions, type ChatInput, requireModel } from '../../chat/input.ts'
import { toReasoning } from './reasoning.ts'

/** A request to create a message or to count its tokens. */
type Asked = Pick<MessagesRequest, 'messages' | 'max_tokens'> & Partial<MessagesRequest>
type Turn = MessagesRequest['messages'][number]
type UserBlock = Exclude<Extract<Turn, { role: 'user' }>['content'], string>[number]
type ShownBlock = Exclude<UserBlock, { type: 'tool_result' }>
type AssistantBlock = Exclude<Extract<Turn, { role: 'assistant' }>['content'], string>[number]

/**
 * Converts a body of POST /v1/messages to the pipeline's input. If the request sets no temperature, the model's default
 * applies.
 * @throws MODEL_REQUIRED, VALIDATION_ERROR
 */
export function toChatInput(request: Asked): ChatInput {
  requireModel(request)
  const messages = request.messages.flatMap((turn) => (turn.role === 'user' ? toUserMessages(turn) : toAnswers(turn)))
  return {
    conversation: { system: toSystem(request.system), messages },
    chain: request,
    index: ZERO_KNOWLEDGE,
    useRag: false,
    policy: request.smltp_policy,
    shield: request.prompt_shield,
    userId: request.user_id,
    conversationId: undefined,
    temperature: request.temperature,
    maxTokens: request.max_tokens,
    fields: { thinking: 'thinking' },
    stream: request.stream ?? false,
    options: toOptions(request),
  }
}

const toSystem = (system: MessagesRequest['system'] = ''): string =>
  typeof system === 'string' ? system : system.map(({ text }) => text).join('\n\n')

/** Splits a user turn. Each tool result becomes a separate message, and so does the text between tool results. */
function toUserMessages({ content }: Extract<Turn, { role: 'user' }>): Message[] {
  if (typeof content === 'string') return [{ role: 'user', content }]
  const messages: Message[] = []
  let shown: ShownBlock[] = []
  function endShown(): void {
    if (shown.length > 0) messages.push({ role: 'user', content: toContent(shown) })
    shown = []
  }
  for (const block of content) {
    if (block.type !== 'tool_result') {
      shown.push(block)
      continue
    }
    endShown()
    const { tool_use_id: toolCallId, content: result = '', is_error: isError } = block
    messages.push({
      role: 'tool',
      toolCallId,
      content: typeof result === 'string' ? result : toContent(result),
      isError,
    })
  }
  endShown()
  return messages
}

function toContent(blocks: readonly ShownBlock[]): Content {
  const [only] = blocks
  if (blocks.length === 1 && only?.type === 'text') return only.text
  return blocks.map((block) =>
    block.type === 'text' ? block : { type: 'image', mediaType: block.source.media_type, data: block.source.data },
  )
}

/**
 * Converts a turn of the model. Internally, reasoning precedes the text of a message. Reasoning after text therefore
 * begins a new message. This preserves the original order. Providers that sign their reasoning require this order.
 */
function toAnswers({ content }: Extract<Turn, { role: 'assistant' }>): Message[] {
  if (typeof content === 'string') return [{ role: 'assistant', content }]
  const answers: AssistantBlock[][] = []
  let current: AssistantBlock[] | undefined
  for (const block of content) {
    const isThinking = block.type === 'thinking' || block.type === 'redacted_thinking'
    // Reasoning after a tool call does not begin a new message, because the tool result must be the next message.
    const goesOn = !isThinking || current?.some(({ type }) => type === 'tool_use') || current?.at(-1)?.type !== 'text'
    if (current && goesOn) current.push(block)
    else {
      current = [block]
      answers.push(current)
    }
  }
  return answers.map(toAnswer)
}

function toAnswer(blocks: readonly AssistantBlock[]): Message {
  let text = ''
  const toolCalls: ToolCall[] = []
  const reasoning: Reasoning[] = []
  for (const block of blocks) {
    if (block.type === 'text') text += block.text
    else if (block.type === 'tool_use') {
      toolCalls.push({ id: block.id, name: block.name, arguments: JSON.stringify(block.input) })
    } else {
      const step = toReasoning(block)
      if (step) reasoning.push(step)
    }
  }
  return {
    role: 'assistant',
    content: text,
    ...(toolCalls.length > 0 && { toolCalls }),
    ...(reasoning.length > 0 && { reasoning }),
  }
}

function toOptions(request: Asked): GenerationOptions | undefined {
  const { tools, tool_choice: choice, output_config: output, output_format: format } = request
  const schema = (output?.format ?? format)?.schema
  return askedOptions({
    tools: tools?.map(({ name, description, input_schema: parameters, strict }) => ({
      name,
      description,
      parameters,
      strict,
    })),
    toolChoice: choice && toToolChoice(choice),
    parallelToolCalls: choice?.disable_parallel_tool_use ? false : undefined,
    // Anthropic's API has no schema name, but other providers require one.
    responseFormat: schema && { type: 'json_schema', name: 'answer', schema, strict: true },
    stop: request.stop_sequences,
    topP: request.top_p,
    topK: request.top_k,
    user: request.metadata?.user_id,
    reasoningEffort: toEffort(request),
    noReasoning: request.thinking?.type === 'disabled' ? true : undefined,
  })
}

function toToolChoice(choice: NonNullable<MessagesRequest['tool_choice']>): ToolChoice {
  if (choice.type === 'tool') return { name: choice.name }
  return choice.type === 'any' ? 'required' : choice.type
}

/** Anthropic's default reasoning effort for adaptive thinking. */
const ADAPTIVE_EFFORT = 'high'

/** Converts Anthropic's thinking options, a token budget or an effort, to a reasoning effort. */
function toEffort({ thinking, output_config: output, max_tokens: maxTokens }: Asked): string | undefined {
  if (thinking?.type === 'disabled') return undefined
  if (output?.effort !== undefined) return output.effort
  if (thinking?.type === 'adaptive') return ADAPTIVE_EFFORT
  if (thinking === undefined) return undefined
  const share = thinking.budget_tokens / maxTokens
  if (share <= 0.25) return 'low'
  return share <= 0.5 ? 'medium' : 'high'
}
