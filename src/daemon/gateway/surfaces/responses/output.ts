// Renders the items of an answer and the answer itself.

import type { Dropped } from '../../../../shared/wire/chat.ts'
import type {
  HostedOutputItem,
  OutputItem,
  ResponsesRequest,
  ResponsesResponse,
  ResponsesUsage,
} from '../../../../shared/wire/responses.ts'
import type { Reasoning, ToolCall } from '../../../models/conversation.ts'
import { toCustomInput } from '../../../models/custom-tools.ts'
import type { TokenUsage } from '../../../models/provider.ts'
import { isObject, parseObject } from '../../../platform/text/json.ts'
import type { AnswerFault, Envelope, Finish } from '../../chat/answer-contract.ts'
import { toExtension } from '../../chat/extension.ts'
import type { TypedObject } from '../../chat/native-parts.ts'
import type { Annotation } from '../annotations.ts'
import { encryptedContentOf } from './reasoning.ts'
import { isHosted, type Tools, toolField } from './tools.ts'

/** What an answer needs of its request. */
export type Asked = {
  /** As the client sent it. */
  request: ResponsesRequest
  tools: Tools
  /** The members of the request that have no effect. */
  dropped: readonly string[]
  /** Called with the complete answer if it is to be stored. Undefined if answers are not stored. */
  keep?: ((response: ResponsesResponse) => void) | undefined
}

type ItemOf<Type extends keyof typeof PREFIXES> = Extract<Exclude<OutputItem, HostedOutputItem>, { type: Type }>
type Logprobs = ItemOf<'message'>['content'][number]['logprobs']

const PREFIXES = { message: 'msg', reasoning: 'rs', function_call: 'fc', custom_tool_call: 'ctc' } as const

export const toItemId = ({ id }: Envelope, type: keyof typeof PREFIXES, at: number): string =>
  `${PREFIXES[type]}_${bareId(id)}_${at}`

/**
 * Returns an item of a tool of OpenAI. Its id names the answer, so that later requests can refer to the item of a stored
 * answer. Providers check only the prefix.
 */
export function toHostedItem({ id }: Envelope, item: TypedObject, at: number): HostedOutputItem {
  const [, prefix = 'item'] = /^([a-z]+)_/.exec(String(item.id)) ?? []
  return { ...item, id: `${prefix}_${bareId(id)}_${at}` } as HostedOutputItem
}

const bareId = (requestId: string) => requestId.replace(/^req-/, '')

export const toTextPart = (
  text: string,
  logprobs: Logprobs = [],
  annotations: Annotation[] = [],
): ItemOf<'message'>['content'][number] => ({
  type: 'output_text',
  text,
  annotations,
  logprobs,
})

export const toMessageItem = (
  id: string,
  status: ItemOf<'message'>['status'],
  content: ItemOf<'message'>['content'],
): OutputItem => ({ id, type: 'message', status, role: 'assistant', content })

export function toReasoningItem(id: string, step: Reasoning): OutputItem {
  const encrypted = encryptedContentOf(step)
  return {
    id,
    type: 'reasoning',
    summary: step.text === '' ? [] : [{ type: 'summary_text', text: step.text }],
    ...(encrypted !== undefined && { encrypted_content: encrypted }),
  }
}

/** @param status undefined: `completed` if the arguments are complete, otherwise `incomplete` */
export function toCallItem(
  id: string,
  { id: callId, name: functionName, arguments: text }: ToolCall,
  { describe }: Tools,
  status: 'in_progress' | undefined,
): ItemOf<'function_call' | 'custom_tool_call'> {
  const { type, name, namespace } = describe(functionName)
  const isWhole = text.trim() === '' || parseObject(text) !== undefined
  const called = {
    id,
    status: status ?? (isWhole ? ('completed' as const) : ('incomplete' as const)),
    call_id: callId,
    name,
    ...(namespace !== undefined && { namespace }),
  }
  return type === 'custom'
    ? { ...called, type: 'custom_tool_call', input: status === 'in_progress' ? '' : toCustomInput({ arguments: text }) }
    : { ...called, type: 'function_call', arguments: text }
}

/** Converts logprobs of chat completions. Their token lists are concatenated. */
export const toLogprobs = (pieces: readonly unknown[]): Logprobs =>
  pieces.flatMap((piece) => {
    const tokens = isObject(piece) && Array.isArray(piece.content) ? piece.content : []
    return tokens.filter((token): token is Logprobs[number] => isObject(token) && typeof token.token === 'string')
  })

/** The state of an answer: its status and the members that depend on it. */
export type State = Pick<ResponsesResponse, 'status' | 'error' | 'incomplete_details'>

export const IN_PROGRESS: State = { status: 'in_progress', error: null, incomplete_details: null }

const INCOMPLETE = { length: 'max_output_tokens', content_filter: 'content_filter' } as const

export const stateOf = (finish: Finish): State =>
  finish === 'stop'
    ? { status: 'completed', error: null, incomplete_details: null }
    : { status: 'incomplete', error: null, incomplete_details: { reason: INCOMPLETE[finish] } }

export const failedState = ({ reason, message }: AnswerFault): State => ({
  status: 'failed',
  error: { code: reason === 'rate_limit' ? 'rate_limit_exceeded' : 'server_error', message },
  incomplete_details: null,
})

/** Returns a function that renders the answer in each of its states. */
export function responseRenderer(
  envelope: Envelope,
  { request, tools, dropped: fields, keep }: Asked,
): (state: State, output: OutputItem[], usage: TokenUsage | undefined) => ResponsesResponse {
  const isStored = keep !== undefined
  const dropped = fields.map((field): Dropped => {
    return { field, why: field === 'store' ? 'operator' : 'gateway' }
  })
  const isDropped = (name: string) => envelope.dropped.some(({ field }) => field === name)
  const sent = (request.tools ?? []).filter((tool) => !isHosted(tool) || !isDropped(toolField(tool.type)))
  const user = request.user
  const isTruncated = request.truncation === 'auto' && !isDropped('truncation')
  return (state, output, usage) => ({
    id: `resp_${bareId(envelope.id)}`,
    object: 'response',
    created_at: envelope.created,
    ...state,
    background: false,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    metadata: request.metadata ?? {},
    model: envelope.model,
    output,
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id: request.previous_response_id ?? null,
    reasoning: { effort: request.reasoning?.effort ?? null, summary: request.reasoning?.summary ?? null },
    store: isStored,
    temperature: request.temperature ?? null,
    text: { format: request.text?.format ?? { type: 'text' } },
    tool_choice: request.tool_choice ?? (tools.offered ? 'auto' : 'none'),
    tools: sent,
    top_p: request.top_p ?? null,
    truncation: isTruncated ? 'auto' : 'disabled',
    usage: usage ? toUsage(usage) : null,
    ...(user !== undefined && { user }),
    gateway: toExtension({ ...envelope, dropped: [...envelope.dropped, ...dropped] }),
  })
}

const toUsage = ({ inputTokens, outputTokens, cacheReadTokens, reasoningTokens }: TokenUsage): ResponsesUsage => ({
  input_tokens: inputTokens,
  input_tokens_details: { cached_tokens: cacheReadTokens },
  output_tokens: outputTokens,
  output_tokens_details: { reasoning_tokens: reasoningTokens },
  total_tokens: inputTokens + outputTokens,
})
