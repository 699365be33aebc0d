// Converts the input items of a request to a conversation.
import { invalidField } from '../../../../shared/errors.ts'
import type { InputItem, ResponsesRequest } from '../../../../shared/wire/responses.ts'
import type { Content, ContentPart, Message, Reasoning, ToolCall } from '../../../models/conversation.ts'
import type { Conversation } from '../../chat/input.ts'
import { toImage } from '../data-url.ts'
import { toReasoning } from './reasoning.ts'
import { toCustomArguments, toFunctionName } from './tools.ts'

type MessageItem = Extract<InputItem, { role: string }>
type UserContent = Extract<InputItem, { role: 'user' }>['content']

/**
 * Converts instructions and input. System and developer messages may appear anywhere; they are moved to the beginning,
 * in order.
 * @param maker the provider of reasoning that does not name its origin
 * @throws VALIDATION_ERROR
 */
export function toConversation({ input, instructions }: ResponsesRequest, maker: string): Conversation {
  const system = instructions === undefined ? [] : [instructions]
  if (typeof input === 'string') return { system: system.join('\n\n'), messages: [{ role: 'user', content: input }] }
  const messages: Message[] = []
  const answers = createAnswers(messages)
  for (const item of input) {
    if (isMessage(item)) {
      if (item.role === 'assistant') answers.text(toText(item.content))
      else if (item.role === 'user') messages.push({ role: 'user', content: toContent(item.content) })
      else system.push(toText(item.content))
    } else addItem(item, { messages, answers, maker })
  }
  if (messages.length === 0) throw invalidField('input', 'Send at least one item in addition to the instructions.')
  return { system: system.filter((text) => text !== '').join('\n\n'), messages }
}

function addItem(
  item: Exclude<InputItem, MessageItem>,
  { messages, answers, maker }: { messages: Message[]; answers: Answers; maker: string },
): void {
  switch (item.type) {
    case 'function_call':
    case 'custom_tool_call': {
      const text = item.type === 'function_call' ? item.arguments : toCustomArguments(item.input)
      answers.call({ id: item.call_id, name: toFunctionName(item.name, item.namespace), arguments: text })
      return
    }
    case 'function_call_output':
    case 'custom_tool_call_output':
      messages.push({ role: 'tool', toolCallId: item.call_id, content: toContent(item.output) })
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

export const isMessage = (item: InputItem): item is MessageItem => item.type === undefined || item.type === 'message'

type Answer = Extract<Message, { role: 'assistant' }> & {
  content: string
  toolCalls?: ToolCall[]
  reasoning?: Reasoning[]
}
type Answers = { text(text: string): void; call(call: ToolCall): void; reasoning(step: Reasoning): void }

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

  const hasText = ({ content }: Answer) => content !== ''
  return {
    text(text) {
      const answer = open(hasText)
      answer.content += answer.content === '' ? text : `\n\n${text}`
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

function toContent(content: UserContent): Content {
  if (typeof content === 'string') return content
  const parts = content.map((part): ContentPart => {
    if (part.type === 'input_text') return { type: 'text', text: part.text }
    if (part.type === 'input_image' && part.image_url !== undefined) return toImage('input', part.image_url)
    throw invalidField(
      'input',
      part.type === 'input_image'
        ? 'An image must have an `image_url`. The gateway stores no files, so `file_id` is not supported.'
        : 'Files are not supported. Send their text as input_text, or their pages as input_image.',
    )
  })
  const [only] = parts
  return parts.length === 1 && only?.type === 'text' ? only.text : parts
}
