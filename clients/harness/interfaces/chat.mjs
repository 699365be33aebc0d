// OpenAI's chat completions: what a request says, and how an answer looks.
import { sse } from './wire.mjs'

export const path = /^\/v1\/chat\/completions$/

/** Returns the error of a request that OpenAI would reject. */
export function refusal(body, headers) {
  if (!headers.authorization?.startsWith('Bearer ')) return 'You did not provide an API key.'
  if (!Array.isArray(body.messages) || body.messages.length === 0) return 'messages must not be empty'
}

export const error = (_status, message) => ({
  error: { message, type: 'invalid_request_error', param: null, code: null },
})

function partOf(part) {
  if (part.type === 'image_url') return { kind: 'image', url: part.image_url.url }
  if (part.type === 'file') return { kind: 'file', url: part.file.file_data, name: part.file.filename }
  if (part.type === 'text') return { kind: 'text', text: part.text }
  return { kind: 'other', type: part.type }
}

const partsOf = (content) =>
  typeof content === 'string' ? [{ kind: 'text', text: content }] : (content ?? []).map(partOf)

function turnOf(message) {
  if (message.role === 'tool') {
    const text = partsOf(message.content)
      .map((part) => part.text)
      .join('')
    return { role: 'tool', parts: [{ kind: 'result', id: message.tool_call_id, text }] }
  }
  const calls = (message.tool_calls ?? []).map((call) => ({ kind: 'call', id: call.id, name: call.function?.name }))
  return { role: message.role, parts: [...partsOf(message.content), ...calls] }
}

/** The facts of a request, in the form that all interfaces share. */
export function read(body) {
  const { messages, tools = [], tool_choice: choice, response_format: format } = body
  return {
    model: body.model,
    stream: body.stream === true,
    turns: messages.map(turnOf),
    tools: tools.map((tool) => tool.function?.name ?? tool.custom?.name),
    forcedTool: choice?.function?.name,
    schema: format?.json_schema?.schema,
    maxTokens: body.max_completion_tokens ?? body.max_tokens,
    stop: [body.stop ?? []].flat(),
    cacheKey: body.prompt_cache_key,
    blocks: [...tools, ...messages].map((block) => JSON.stringify(block)),
  }
}

const usageOf = ({ input, output, cached }) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
  prompt_tokens_details: { cached_tokens: cached, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
})

const FINISH = { stop: 'stop', stop_sequence: 'stop', length: 'length', calls: 'tool_calls' }
const callOf = ({ id, name, input }) => ({ id, type: 'function', function: { name, arguments: JSON.stringify(input) } })
const headOf = (object, { id, created, model }) => ({
  id: `chatcmpl-${id}`,
  object,
  created,
  model,
  service_tier: 'default',
  system_fingerprint: 'fp_1',
})

export function whole({ answer, head, usage }) {
  const { text, calls } = answer
  const message = {
    role: 'assistant',
    content: text || null,
    refusal: null,
    annotations: [],
    ...(calls.length && { tool_calls: calls.map(callOf) }),
  }
  const choice = { index: 0, message, logprobs: null, finish_reason: FINISH[answer.finish] }
  return { ...headOf('chat.completion', head), choices: [choice], usage: usageOf(usage) }
}

export function stream({ head, body }) {
  const wantsUsage = body.stream_options?.include_usage === true
  const chunk = (choices, more) =>
    sse({ ...headOf('chat.completion.chunk', head), choices, ...(wantsUsage && { usage: null }), ...more })
  const delta = (given, finish_reason = null) => chunk([{ index: 0, delta: given, logprobs: null, finish_reason }])
  return {
    open: () => delta({ role: 'assistant', content: '', refusal: null }),
    piece: (content) => delta({ content }),
    close({ calls, finish }, usage) {
      const called = calls.flatMap((call, index) => {
        const { id, type, function: given } = callOf(call)
        const half = given.arguments.length >> 1
        const argument = (text) => delta({ tool_calls: [{ index, function: { arguments: text } }] })
        return [
          delta({ tool_calls: [{ index, id, type, function: { name: given.name, arguments: '' } }] }),
          argument(given.arguments.slice(0, half)),
          argument(given.arguments.slice(half)),
        ]
      })
      const end = delta({}, FINISH[finish])
      return [...called, end, wantsUsage ? chunk([], { usage: usageOf(usage) }) : '', 'data: [DONE]\n\n'].join('')
    },
  }
}
