// OpenAI's Responses: what a request says, and how an answer looks.
import { sse } from './wire.mjs'

export const path = /^\/v1\/responses$/

/** Returns the error of a request that OpenAI would reject. */
export function refusal(body, headers) {
  if (!headers.authorization?.startsWith('Bearer ')) return 'You did not provide an API key.'
  if (body.input === undefined) return "Missing required parameter: 'input'."
}

export const error = (_status, message) => ({
  error: { message, type: 'invalid_request_error', param: null, code: null },
})

function partOf(part) {
  if (part.type === 'input_image') return { kind: 'image', url: part.image_url }
  if (part.type === 'input_file') return { kind: 'file', url: part.file_data ?? part.file_url, name: part.filename }
  if (part.type === 'input_text' || part.type === 'output_text') return { kind: 'text', text: part.text }
  return { kind: 'other', type: part.type }
}

const partsOf = (content) =>
  typeof content === 'string' ? [{ kind: 'text', text: content }] : (content ?? []).map(partOf)

function turnOf(item) {
  if (item.type === 'function_call' || item.type === 'custom_tool_call')
    return { role: 'assistant', parts: [{ kind: 'call', id: item.call_id, name: item.name }] }
  if (item.type === 'function_call_output' || item.type === 'custom_tool_call_output') {
    const text = partsOf(item.output)
      .map((part) => part.text)
      .join('')
    return { role: 'tool', parts: [{ kind: 'result', id: item.call_id, text }] }
  }
  return { role: item.role ?? 'assistant', parts: partsOf(item.content) }
}

/** The facts of a request, in the form that all interfaces share. */
export function read(body) {
  const { tools = [], tool_choice: choice, instructions } = body
  const items = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : body.input
  const system = instructions ? [{ role: 'system', content: instructions }] : []
  return {
    model: body.model,
    stream: body.stream === true,
    turns: [...system, ...items].map(turnOf),
    tools: tools.filter(({ type }) => type === 'function').map(({ name }) => name),
    forcedTool: choice?.name,
    schema: body.text?.format?.schema,
    maxTokens: body.max_output_tokens,
    stop: [],
    cacheKey: body.prompt_cache_key,
    blocks: [...system, ...tools, ...items].map((block) => JSON.stringify(block)),
  }
}

const usageOf = ({ input, output, cached }) => ({
  input_tokens: input,
  input_tokens_details: { cached_tokens: cached },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: input + output,
})

const callOf = ({ id, name, input }, status) => ({
  id: `fc_${id}`,
  type: 'function_call',
  status,
  call_id: id,
  name,
  arguments: status === 'completed' ? JSON.stringify(input) : '',
})
const textPart = (text) => ({ type: 'output_text', annotations: [], logprobs: [], text })
const messageOf = (id, status, content) => ({ id: `msg_${id}`, type: 'message', status, role: 'assistant', content })

function response({ id, created, model }, body, status, more = {}) {
  return {
    id: `resp_${id}`,
    object: 'response',
    created_at: created,
    status,
    background: false,
    error: null,
    incomplete_details: null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    model,
    output: [],
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    store: body.store ?? true,
    temperature: 1,
    text: body.text ?? { format: { type: 'text' } },
    tool_choice: body.tool_choice ?? 'auto',
    tools: body.tools ?? [],
    top_p: 1,
    truncation: 'disabled',
    usage: null,
    user: null,
    metadata: {},
    ...more,
  }
}

function finished({ answer: { text, calls, finish }, head, body, usage }) {
  const status = finish === 'length' ? 'incomplete' : 'completed'
  const output = [
    ...(text ? [messageOf(head.id, status, [textPart(text)])] : []),
    ...calls.map((call) => callOf(call, 'completed')),
  ]
  const details = status === 'incomplete' ? { reason: 'max_output_tokens' } : null
  return response(head, body, status, { output, usage: usageOf(usage), incomplete_details: details })
}

export const whole = finished

export function stream({ head, body }) {
  let number = 0
  let text = ''
  const event = (type, data) => sse({ type, sequence_number: number++, ...data }, type)
  const at = { item_id: `msg_${head.id}`, output_index: 0, content_index: 0 }
  return {
    open: () =>
      event('response.created', { response: response(head, body, 'in_progress') }) +
      event('response.in_progress', { response: response(head, body, 'in_progress') }),
    piece(delta) {
      const first =
        text === ''
          ? event('response.output_item.added', { output_index: 0, item: messageOf(head.id, 'in_progress', []) }) +
            event('response.content_part.added', { ...at, part: textPart('') })
          : ''
      text += delta
      return first + event('response.output_text.delta', { ...at, delta, logprobs: [] })
    },
    close(answer, usage) {
      const status = answer.finish === 'length' ? 'incomplete' : 'completed'
      const events = []
      if (text !== '')
        events.push(
          event('response.output_text.done', { ...at, text, logprobs: [] }),
          event('response.content_part.done', { ...at, part: textPart(text) }),
          event('response.output_item.done', { output_index: 0, item: messageOf(head.id, status, [textPart(text)]) }),
        )
      const from = text === '' ? 0 : 1
      for (const [index, call] of answer.calls.entries()) {
        const output_index = from + index
        const item = callOf(call, 'completed')
        const place = { item_id: item.id, output_index }
        events.push(
          event('response.output_item.added', { output_index, item: callOf(call, 'in_progress') }),
          event('response.function_call_arguments.delta', { ...place, delta: item.arguments }),
          event('response.function_call_arguments.done', { ...place, arguments: item.arguments, name: item.name }),
          event('response.output_item.done', { output_index, item }),
        )
      }
      events.push(event(`response.${status}`, { response: finished({ answer, head, body, usage }) }))
      return events.join('')
    },
  }
}
