// Anthropic's Messages: what a request says, and how an answer looks.
import { dataUrl, sse } from './wire.mjs'

export const path = /^\/v1\/messages(\/count_tokens)?$/

/** Returns the error of a request that Anthropic would reject. */
export function refusal(body, headers, { pathname }) {
  if (!headers['x-api-key'] && !headers.authorization) return 'x-api-key header is required'
  if (!headers['anthropic-version']) return 'anthropic-version: header is required'
  if (pathname.endsWith('/messages') && !Number.isInteger(body.max_tokens)) return 'max_tokens: Field required'
  if (!Array.isArray(body.messages) || body.messages.length === 0) return 'messages: at least one message is required'
}

export const error = (_status, message) => ({
  type: 'error',
  error: { type: 'invalid_request_error', message },
  request_id: 'req_1',
})

const sourceOf = ({ type, media_type, data, url }) => (type === 'base64' ? dataUrl(media_type, data) : url)

function partOf(block) {
  if (block.type === 'text') return { kind: 'text', text: block.text }
  if (block.type === 'image') return { kind: 'image', url: sourceOf(block.source) }
  if (block.type === 'document') return { kind: 'file', url: sourceOf(block.source), name: block.title }
  if (block.type === 'tool_use') return { kind: 'call', id: block.id, name: block.name }
  if (block.type === 'tool_result') {
    const text = blocksOf(block.content)
      .map(({ text: said }) => said ?? '')
      .join('')
    return { kind: 'result', id: block.tool_use_id, text }
  }
  return { kind: 'other', type: block.type }
}

const blocksOf = (content) => (typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []))

/** The facts of a request, in the form that all interfaces share. */
export function read(body) {
  const { tools = [], tool_choice: choice } = body
  const system = blocksOf(body.system)
  const messages = body.messages.map(({ role, content }) => ({ role, blocks: blocksOf(content) }))
  const cached = [
    ...tools,
    ...system,
    ...messages.flatMap(({ role, blocks }) => blocks.map((block) => ({ role, ...block }))),
  ]
  // A mark on the request itself is a mark on its last block.
  const marks = cached.flatMap((block, at) =>
    block.cache_control || (body.cache_control && at === cached.length - 1) ? [at] : [],
  )
  return {
    model: body.model,
    stream: body.stream === true,
    turns: [
      { role: 'system', parts: system.map(partOf) },
      ...messages.map(({ role, blocks }) => ({ role, parts: blocks.map(partOf) })),
    ],
    tools: tools.map(({ name }) => name),
    forcedTool: choice?.name,
    schema: (body.output_config?.format ?? body.output_format)?.schema,
    maxTokens: body.max_tokens,
    stop: body.stop_sequences ?? [],
    // The mark is not part of the cached text.
    blocks: cached.map(({ cache_control: _, ...block }) => JSON.stringify(block)),
    marks,
  }
}

const usageOf = ({ input, output, cached, written }) => ({
  input_tokens: input - cached - written,
  cache_creation_input_tokens: written,
  cache_read_input_tokens: cached,
  cache_creation: { ephemeral_5m_input_tokens: written, ephemeral_1h_input_tokens: 0 },
  output_tokens: output,
  service_tier: 'standard',
})

const FINISH = { stop: 'end_turn', stop_sequence: 'stop_sequence', length: 'max_tokens', calls: 'tool_use' }
const endOf = ({ finish, stopSequence = null }) => ({ stop_reason: FINISH[finish], stop_sequence: stopSequence })
const headOf = ({ id, model }) => ({ id: `msg_${id}`, type: 'message', role: 'assistant', model })
const callOf = ({ id, name, input }) => ({ type: 'tool_use', id, name, input })

export function whole({ answer, head, usage }) {
  const content = [...(answer.text ? [{ type: 'text', text: answer.text }] : []), ...answer.calls.map(callOf)]
  return { ...headOf(head), content, ...endOf(answer), usage: usageOf(usage) }
}

export const tokens = ({ input }) => ({ input_tokens: input })

export function stream({ head, usage }) {
  const event = (type, data) => sse({ type, ...data }, type)
  let isOpen = false
  return {
    open: () => {
      const message = {
        ...headOf(head),
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: usageOf({ ...usage, output: 1 }),
      }
      return event('message_start', { message }) + event('ping', {})
    },
    piece(text) {
      const start = isOpen ? '' : event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } })
      isOpen = true
      return start + event('content_block_delta', { index: 0, delta: { type: 'text_delta', text } })
    },
    close(answer, total) {
      const from = isOpen ? 1 : 0
      const events = isOpen ? [event('content_block_stop', { index: 0 })] : []
      for (const [at, call] of answer.calls.entries()) {
        const index = from + at
        const json = JSON.stringify(call.input)
        const half = json.length >> 1
        const delta = (partial_json) =>
          event('content_block_delta', { index, delta: { type: 'input_json_delta', partial_json } })
        events.push(event('content_block_start', { index, content_block: callOf({ ...call, input: {} }) }))
        events.push(
          delta(''),
          delta(json.slice(0, half)),
          delta(json.slice(half)),
          event('content_block_stop', { index }),
        )
      }
      events.push(event('message_delta', { delta: endOf(answer), usage: usageOf(total) }), event('message_stop', {}))
      return events.join('')
    },
  }
}
