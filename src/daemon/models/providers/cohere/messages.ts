// Converts conversations to the messages of Cohere's chat API.
import {
  type Content,
  type ContentPart,
  citedText,
  type Message,
  type Reasoning,
  type ToolCall,
  textOf,
} from '../../conversation.ts'
import { ProviderError } from '../../provider.ts'
import { COHERE_ORIGIN } from './supported.ts'

type AssistantMessage = Extract<Message, { role: 'assistant' }>

/**
 * Returns the conversation in Cohere's form. Messages without content are dropped, because Cohere rejects them.
 * @throws ProviderError `bad_request` for files, for blocks of other APIs, and for images outside user messages
 */
export const toCohereMessages = (messages: readonly Message[]): object[] => messages.flatMap(toMessage)

function toMessage(message: Message): object[] {
  if (message.role === 'assistant') return toAssistant(message)
  if (message.role === 'tool') {
    return [{ role: 'tool', tool_call_id: message.toolCallId, content: textOnly(message.content, 'tool results') }]
  }
  const content = toContent(message.content)
  return content.length === 0 ? [] : [{ role: 'user', content }]
}

/** The text before a tool call is the plan of the call, as in Cohere's answers. */
function toAssistant({ content, toolCalls = [], reasoning = [] }: AssistantMessage): object[] {
  const text = textOnly(content, 'messages of the assistant')
  const thoughts = reasoning.flatMap(toThinking)
  if (toolCalls.length > 0) {
    return [
      {
        role: 'assistant',
        ...(thoughts.length > 0 && { content: thoughts }),
        ...(text !== '' && { tool_plan: text }),
        tool_calls: toolCalls.map(toToolCall),
      },
    ]
  }
  if (text === '') return []
  return [{ role: 'assistant', content: thoughts.length === 0 ? text : [...thoughts, { type: 'text', text }] }]
}

const toThinking = ({ origin, text }: Reasoning): object[] =>
  origin === COHERE_ORIGIN && text !== '' ? [{ type: 'thinking', thinking: text }] : []

const toToolCall = ({ id, name, arguments: text }: ToolCall): object => ({
  id,
  type: 'function',
  function: { name, arguments: text.trim() === '' ? '{}' : text },
})

function textOnly(content: Content, where: string): string {
  const parts = typeof content === 'string' ? [] : content
  if (parts.some((part) => part.type !== 'text' && !(part.type === 'native' && citedText(part)))) {
    throw badRequest(`accepts only text in ${where}`)
  }
  return textOf(content)
}

function toContent(content: Content): string | object[] {
  return typeof content === 'string' ? content : content.flatMap(toPart)
}

function toPart(part: ContentPart): object[] {
  switch (part.type) {
    case 'text':
      return part.text === '' ? [] : [{ type: 'text', text: part.text }]
    case 'image':
      return [toImage(`data:${part.mediaType};base64,${part.data}`, part.detail)]
    case 'image_url':
      return [toImage(part.url, part.detail)]
    case 'native': {
      const text = citedText(part)?.text
      if (text === undefined) throw badRequest(`does not support blocks of type ${part.block.type}`)
      return text === '' ? [] : [{ type: 'text', text }]
    }
    case 'file':
    case 'file_url':
      throw badRequest('does not support files')
    default:
      return part satisfies never
  }
}

const toImage = (url: string, detail: string | undefined): object => ({ type: 'image_url', image_url: { url, detail } })

/** Returns the error for a request that the API does not support. It is thrown before the call. */
export const badRequest = (what: string) => new ProviderError('bad_request', `The provider ${what}.`)
