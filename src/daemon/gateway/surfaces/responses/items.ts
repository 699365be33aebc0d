// Converts the input items of a request to a conversation.
import { invalidField } from '../../../../shared/errors.ts'
import type { HostedItem, InputItem, ResponsesRequest } from '../../../../shared/wire/responses.ts'
import {
  type Content,
  type ContentPart,
  type Message,
  type NativePart,
  OPENAI_ORIGIN,
  RESPONSES_ORIGIN,
  type Reasoning,
  type ToolCall,
} from '../../../models/conversation.ts'
import { toCustomArguments } from '../../../models/custom-tools.ts'
import { isObject } from '../../../platform/text/json.ts'
import type { Conversation } from '../../chat/input.ts'
import { toFile, toImage } from '../data-url.ts'
import type { Marks } from '../openai/native.ts'
import { toReasoning } from './reasoning.ts'
import { isOptionalItem, toFunctionName } from './tools.ts'

type MessageItem = Extract<InputItem, { role: string }>
type ContentMarks = Pick<Marks, 'add' | 'addAddress'>
type UserContent = Extract<InputItem, { role: 'user' }>['content']

/**
 * Converts instructions and input. System and developer messages may appear anywhere; they are moved to the beginning,
 * in order.
 * @param maker the provider of reasoning that does not name its origin
 * @param marks collects what a policy may forbid and what some providers do not support
 * @throws VALIDATION_ERROR
 */
export function toConversation(
  { input, instructions }: ResponsesRequest,
  maker: string,
  marks: ContentMarks,
): Conversation {
  const system = instructions === undefined ? [] : [instructions]
  if (typeof input === 'string') return { system: system.join('\n\n'), messages: [{ role: 'user', content: input }] }
  const messages: Message[] = []
  const answers = createAnswers(messages)
  for (const item of input) {
    if (isMessage(item)) {
      if (item.role === 'assistant') answers.text(toText(item.content))
      else if (item.role === 'user') messages.push({ role: 'user', content: toContent(item.content, marks) })
      else system.push(toText(item.content))
    } else if (isHostedItem(item)) addHosted(item, { messages, answers, marks })
    else addItem(item, { messages, answers, maker, marks })
  }
  if (messages.length === 0) throw invalidField('input', 'Send at least one item in addition to the instructions.')
  return { system: system.filter((text) => text !== '').join('\n\n'), messages }
}

function addItem(
  item: Exclude<InputItem, MessageItem | HostedItem>,
  { messages, answers, maker, marks }: { messages: Message[]; answers: Answers; maker: string; marks: ContentMarks },
): void {
  switch (item.type) {
    case 'function_call':
    case 'custom_tool_call': {
      const called = { id: item.call_id, name: toFunctionName(item.name, item.namespace) }
      if (item.type === 'function_call') answers.call({ ...called, arguments: item.arguments })
      else answers.call({ ...called, arguments: toCustomArguments(item.input), isCustom: true })
      return
    }
    case 'function_call_output':
    case 'custom_tool_call_output':
      messages.push({ role: 'tool', toolCallId: item.call_id, content: toContent(item.output, marks) })
      return
    case 'reasoning': {
      const step = toReasoning(item, maker)
      if (step) answers.reasoning(step)
      return
    }
    case 'item_reference':
      throw invalidField(
        'input',
        `The item '${item.id.slice(0, 100)}' is not stored. Send the item itself. With the AI SDK, set providerOptions.openai.store to false.`,
      )
    default:
      item satisfies never
  }
}

/** An item of a tool of OpenAI stays in its form. Results come from the client, all other steps from the model. */
function addHosted(
  item: HostedItem,
  { messages, answers, marks }: { messages: Message[]; answers: Answers; marks: ContentMarks },
): void {
  const { type } = item
  marks.add(`input[${type.slice(0, 100)}]`)
  const isOptional = isOptionalItem(type)
  const part = { type: 'native', origin: RESPONSES_ORIGIN, block: item, ...(isOptional && { isOptional }) } as const
  if (isAddress(item.output)) marks.addAddress()
  if (type === 'mcp_approval_response') messages.push({ role: 'user', content: [part] })
  else if (type.endsWith('_output')) messages.push({ role: 'tool', toolCallId: item.call_id ?? '', content: [part] })
  else answers.block(part)
}

/** Whether the output of a call is a picture that the provider fetches. */
const isAddress = (output: unknown): boolean =>
  isObject(output) && typeof output.image_url === 'string' && !output.image_url.startsWith('data:')

export const isHostedItem = (item: InputItem): item is HostedItem => !OWN_TYPES.has(item.type)
const OWN_TYPES: ReadonlySet<string | undefined> = new Set([
  ...[undefined, 'message', 'function_call', 'function_call_output', 'custom_tool_call'],
  ...['custom_tool_call_output', 'reasoning', 'item_reference'],
])

export const isMessage = (item: InputItem): item is MessageItem => item.type === undefined || item.type === 'message'

type Answer = Extract<Message, { role: 'assistant' }> & {
  content: string | ContentPart[]
  toolCalls?: ToolCall[]
  reasoning?: Reasoning[]
}
type Answers = {
  text(text: string): void
  block(part: NativePart): void
  call(call: ToolCall): void
  reasoning(step: Reasoning): void
}

/**
 * Collects consecutive items of the model in one message. Within a message, reasoning precedes the text, and the text
 * precedes the calls. An item that would change this order begins a new message, except after a call: the next message
 * must contain the result of the call.
 */
function createAnswers(messages: Message[]): Answers {
  let current: Answer | undefined

  function open(startsNew: (answer: Answer) => boolean): Answer {
    if (current && current === messages.at(-1) && (current.toolCalls || !startsNew(current))) return current
    current = { role: 'assistant', content: '' }
    messages.push(current)
    return current
  }

  const hasText = ({ content }: Answer) => content.length > 0
  return {
    text(text) {
      const answer = open(hasText)
      if (typeof answer.content !== 'string') answer.content.push({ type: 'text', text })
      else answer.content += answer.content === '' ? text : `\n\n${text}`
    },
    block(part) {
      const answer = open(hasText)
      const { content } = answer
      const parts =
        typeof content !== 'string' ? content : content === '' ? [] : [{ type: 'text' as const, text: content }]
      answer.content = [...parts, part]
    },
    call(call) {
      const answer = open(() => false)
      answer.toolCalls = [...(answer.toolCalls ?? []), call]
    },
    reasoning(step) {
      const answer = open(hasText)
      answer.reasoning = [...(answer.reasoning ?? []), step]
    },
  }
}

type TextPart = { type: 'input_text' | 'output_text'; text: string } | { type: 'refusal'; refusal: string }

const toText = (content: string | readonly TextPart[]): string =>
  typeof content === 'string'
    ? content
    : content.map((part) => (part.type === 'refusal' ? part.refusal : part.text)).join('')

function toContent(content: UserContent, marks: ContentMarks): Content {
  if (typeof content === 'string') return content
  const parts = content.map((part) => toPart(part, marks))
  const [only] = parts
  return parts.length === 1 && only?.type === 'text' ? only.text : parts
}

/** The name under which the answer reports that the resolution of images was dropped. */
export const DETAIL = 'input[].content[].detail'

function toPart(part: Exclude<UserContent, string>[number], marks: ContentMarks): ContentPart {
  if (part.type === 'input_text') return { type: 'text', text: part.text }
  const { file_id: id } = part
  if (part.type === 'input_image') {
    const { image_url: url, detail } = part
    if (detail !== undefined && detail !== 'auto') marks.add(DETAIL)
    if (url !== undefined) {
      const image = toImage('input', url, detail)
      if (image.type === 'image_url') marks.addAddress()
      return image
    }
    if (id === undefined) throw invalidField('input', 'An image must have an `image_url` or a `file_id`.')
    const block = { type: 'input_image', file_id: id, detail: detail ?? 'auto' }
    return { type: 'native', origin: RESPONSES_ORIGIN, block }
  }
  const { file_data: data, file_url: url, filename } = part
  if ([data, url, id].filter((one) => one !== undefined).length !== 1) {
    throw invalidField('input', 'A file must have exactly one of `file_data`, `file_url` and `file_id`.')
  }
  if (data !== undefined) return toFile('input', data, filename)
  if (url !== undefined) {
    marks.addAddress()
    return { type: 'file_url', url, ...(filename !== undefined && { name: filename }) }
  }
  return { type: 'native', origin: OPENAI_ORIGIN, block: { type: 'file', file: { file_id: id } } }
}
