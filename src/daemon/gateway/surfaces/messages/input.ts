import { ZERO_KNOWLEDGE } from '../../../../shared/wire/indexes.ts'
import type { MessagesRequest } from '../../../../shared/wire/messages.ts'
import type {
  CacheMark,
  Content,
  ContentPart,
  GenerationOptions,
  Message,
  NativeBlock,
  NativePart,
  Reasoning,
  System,
  TextPart,
  Tool,
  ToolCall,
  ToolChoice,
} from '../../../models/conversation.ts'
import { isObject } from '../../../platform/text/json.ts'
import { askedOptions, type ChatInput, requireModel } from '../../chat/input.ts'
import { isConverted } from '../annotations.ts'
import { createMarks, type Marks, type NativeHeaders, ORIGIN, toNative } from './native.ts'
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
export function toChatInput(request: Asked, headers: NativeHeaders = NO_HEADERS): ChatInput {
  requireModel(request)
  const marks = createMarks()
  const messages = request.messages.flatMap((turn) => toMessages(turn, marks))
  return {
    conversation: { system: toSystem(request.system, marks), messages },
    chain: request,
    index: ZERO_KNOWLEDGE,
    useRag: false,
    policy: request.smltp_policy,
    shield: request.prompt_shield,
    userId: request.user_id,
    conversationId: undefined,
    temperature: request.temperature,
    maxTokens: request.max_tokens,
    fields: { thinking: 'thinking', user: 'metadata.user_id' },
    stream: request.stream ?? false,
    dropped: headers.dropped,
    options: toOptions(request, headers, marks),
    uses: marks.uses,
  }
}

const NO_HEADERS: NativeHeaders = { headers: {}, dropped: [] }

const toSystem = (system: MessagesRequest['system'] = '', marks: Marks): System =>
  typeof system === 'string'
    ? system
    : system.map(({ type, text, cache_control: cache }) => ({ type, text, ...cached(cache, marks) }))

type TextBlock = Extract<UserBlock, { type: 'text' }>

/**
 * A text with citations is sent back as a block, because its citations belong to it. Citations of other providers do
 * not affect the model.
 */
function toText({ text, citations: all, cache_control: cache }: TextBlock, marks: Marks): TextPart | NativePart {
  const citations = all?.filter((one) => !(isObject(one) && isConverted(one)))
  if (citations?.length) return toNativePart({ type: 'text', text, citations, cache_control: cache }, marks)
  return { type: 'text', text, ...cached(cache, marks) }
}

function toNativePart(
  { cache_control: cache, ...block }: NativeBlock & { cache_control?: CacheMark | undefined },
  marks: Marks,
): NativePart {
  marks.addBlock(block)
  return { type: 'native', origin: ORIGIN, block, ...cached(cache, marks) }
}

function cached(cache: CacheMark | undefined, marks: Marks): { cache?: CacheMark } {
  if (!cache) return {}
  marks.addCache(cache)
  return { cache }
}

function toMessages(turn: Turn, marks: Marks): Message[] {
  if (turn.role === 'assistant') return toAnswers(turn, marks)
  if (turn.role === 'user') return toUserMessages(turn, marks)
  marks.add('messages.role')
  const content = typeof turn.content === 'string' ? turn.content : toContent(turn.content, marks)
  return [{ role: 'user', content, isSystem: true }]
}

/** Splits a user turn. Each tool result becomes a separate message, and so does the text between tool results. */
function toUserMessages({ content }: Extract<Turn, { role: 'user' }>, marks: Marks): Message[] {
  if (typeof content === 'string') return [{ role: 'user', content }]
  const messages: Message[] = []
  let shown: ShownBlock[] = []
  function endShown(): void {
    if (shown.length > 0) messages.push({ role: 'user', content: toContent(shown, marks) })
    shown = []
  }
  for (const block of content) {
    if (!isToolResult(block)) {
      shown.push(block)
      continue
    }
    endShown()
    const { tool_use_id: toolCallId, content: result = '', is_error: isError, cache_control: cache } = block
    messages.push({
      role: 'tool',
      toolCallId,
      content: typeof result === 'string' ? result : toContent(result, marks),
      isError,
      ...cached(cache, marks),
    })
  }
  endShown()
  return messages
}

function toContent(blocks: readonly ShownBlock[], marks: Marks): Content {
  const [only] = blocks
  if (blocks.length === 1 && only && isText(only) && !only.cache_control && !only.citations) return only.text
  return blocks.map((block) => toPart(block, marks))
}

function toPart(block: ShownBlock, marks: Marks): ContentPart {
  if (isText(block)) return toText(block, marks)
  if (isImage(block) && Object.keys(block).every((name) => IMAGE_MEMBERS.has(name))) {
    const { source, cache_control: cache } = block
    if (source.type === 'base64') {
      return { type: 'image', mediaType: source.media_type, data: source.data, ...cached(cache, marks) }
    }
    if (source.type === 'url') {
      marks.addAddress()
      return { type: 'image_url', url: source.url, ...cached(cache, marks) }
    }
  }
  return (isDocument(block) && toFile(block, marks)) || toNativePart(block, marks)
}

type Document = Extract<UserBlock, { title?: string | undefined; type: 'document' }>
const isDocument = (block: ShownBlock): block is Document => block.type === 'document'
const PDF = 'application/pdf'
const DOCUMENT_MEMBERS = new Set(['type', 'source', 'title', 'cache_control'])

/** Converts a document that every API with files can express. Undefined for other documents. */
function toFile(block: Document, marks: Marks): ContentPart | undefined {
  const { source, title, cache_control: cache } = block
  const isPlain = Object.entries(block).every(([name, value]) => DOCUMENT_MEMBERS.has(name) || value === undefined)
  if (!isPlain) return undefined
  const options = { ...(title !== undefined && { name: title }), ...cached(cache, marks) }
  if (source.type === 'base64' && source.media_type === PDF) {
    return { type: 'file', mediaType: source.media_type, data: source.data, ...options }
  }
  if (source.type !== 'url') return undefined
  marks.addAddress()
  return { type: 'file_url', url: source.url, ...options }
}

const IMAGE_MEMBERS = new Set(['type', 'source', 'cache_control'])
const isText = (block: { type: string }): block is TextBlock => block.type === 'text'
const isImage = (block: { type: string }): block is Extract<UserBlock, { source: { type: string }; type: 'image' }> =>
  block.type === 'image'
const isToolResult = (block: UserBlock): block is Extract<UserBlock, { type: 'tool_result' }> =>
  block.type === 'tool_result'

/**
 * Converts a turn of the model. Internally, reasoning precedes the text of a message. Reasoning after text therefore
 * begins a new message. This preserves the original order. Providers that sign their reasoning require this order.
 */
function toAnswers({ content }: Extract<Turn, { role: 'assistant' }>, marks: Marks): Message[] {
  if (typeof content === 'string') return [{ role: 'assistant', content }]
  const answers: AssistantBlock[][] = []
  let current: AssistantBlock[] | undefined
  for (const block of content) {
    const isThinking = isThinkingBlock(block)
    // Reasoning after a tool call does not begin a new message, because the tool result must be the next message.
    const last = current?.at(-1)
    const goesOn = !isThinking || current?.some(isToolUse) || (last && isThinkingBlock(last))
    if (current && goesOn) current.push(block)
    else {
      current = [block]
      answers.push(current)
    }
  }
  return answers.map((blocks) => toAnswer(blocks, marks))
}

function toAnswer(blocks: readonly AssistantBlock[], marks: Marks): Message {
  const parts: (TextPart | NativePart)[] = []
  const toolCalls: ToolCall[] = []
  const reasoning: Reasoning[] = []
  for (const block of blocks) {
    if (isText(block)) parts.push(toText(block, marks))
    else if (isToolUse(block)) {
      const { id, name, input, cache_control: cache } = block
      toolCalls.push({ id, name, arguments: JSON.stringify(input), ...cached(cache, marks) })
    } else if (isThinkingBlock(block)) {
      const step = toReasoning(block)
      if (step) reasoning.push(step)
    } else parts.push(toNativePart(block, marks))
  }
  const [only] = parts
  const isPlain = parts.length < 2 && only?.type !== 'native' && !only?.cache
  return {
    role: 'assistant',
    content: isPlain ? (only?.text ?? '') : parts,
    ...(toolCalls.length > 0 && { toolCalls }),
    ...(reasoning.length > 0 && { reasoning }),
  }
}

const isToolUse = (block: AssistantBlock): block is Extract<AssistantBlock, { type: 'tool_use' }> =>
  block.type === 'tool_use'
const isThinkingBlock = (
  block: AssistantBlock,
): block is Extract<AssistantBlock, { type: 'thinking' } | { type: 'redacted_thinking' }> =>
  block.type === 'thinking' || block.type === 'redacted_thinking'

type AskedTool = NonNullable<MessagesRequest['tools']>[number]
const isOwnTool = (tool: AskedTool): tool is Extract<AskedTool, { input_schema: object }> =>
  tool.type === undefined || tool.type === 'custom'

/** The members of a tool that every provider's API has. */
const TOOL_MEMBERS = new Set(['type', 'name', 'description', 'input_schema', 'strict', 'cache_control'])

function toTool(tool: AskedTool, marks: Marks): Tool {
  const { cache_control: cache } = tool
  if (!isOwnTool(tool)) {
    const { cache_control: _, ...definition } = tool
    const native = { origin: ORIGIN, definition }
    marks.addTool(tool.type)
    return { name: tool.name ?? tool.type, native, ...cached(cache, marks) }
  }
  const { name, description, input_schema: parameters, strict } = tool
  const extra = Object.entries(tool).filter(([member]) => !TOOL_MEMBERS.has(member))
  for (const [member] of extra) marks.add(`tools.${member}`)
  const more = extra.length > 0 && { extra: { origin: ORIGIN, members: Object.fromEntries(extra) } }
  return { name, description, parameters, strict, ...more, ...cached(cache, marks) }
}

function toOptions(request: Asked, headers: NativeHeaders, marks: Marks): GenerationOptions | undefined {
  const { tools, tool_choice: choice, output_config: output, output_format: format } = request
  const schema = (output?.format ?? format)?.schema
  return askedOptions({
    tools: tools?.map((tool) => toTool(tool, marks)),
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
    // After the tools, because they may have marks.
    native: toNative(request, headers, marks),
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
