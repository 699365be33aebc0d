import { ZERO_KNOWLEDGE } from '../../../../shared/wire/indexes.ts'
import type { ResponsesRequest } from '../../../../shared/wire/responses.ts'
import {
  type GenerationOptions,
  type NativeOptions,
  RESPONSES_ORIGIN,
  type ResponseFormat,
} from '../../../models/conversation.ts'
import { askedOptions, type ChatInput, makerOf, requireModel } from '../../chat/input.ts'
import { Marks, serverToolsIn } from '../openai/native.ts'
import { nativeMembers } from './dropped.ts'
import { toConversation } from './items.ts'
import { isHosted, isServerTool, type Tools, toolField } from './tools.ts'

/**
 * Converts a body of POST /v1/responses to the pipeline's input. Sets neither a default temperature nor a default limit.
 * @throws MODEL_REQUIRED, VALIDATION_ERROR
 */
export function toChatInput(request: ResponsesRequest, tools: Tools): ChatInput {
  requireModel(request)
  const marks = new Marks()
  const conversation = toConversation(request, makerOf(request), marks)
  addTools(request, tools, marks)
  const native = toNative(request, tools, marks)
  const uses = marks.uses(native)
  return {
    conversation,
    chain: request,
    index: ZERO_KNOWLEDGE,
    useRag: false,
    policy: request.smltp_policy,
    shield: request.prompt_shield,
    userId: request.user_id,
    conversationId: undefined,
    cacheKey: typeof request.prompt_cache_key === 'string' ? request.prompt_cache_key : undefined,
    temperature: request.temperature,
    maxTokens: request.max_output_tokens,
    fields: { maxTokens: 'max_output_tokens', thinking: 'reasoning.effort' },
    stream: request.stream ?? false,
    options: toOptions(request, tools, native),
    ...(uses && { uses }),
  }
}

/** Adds the tools that OpenAI defines, and the grammars of custom tools. */
function addTools({ tools = [] }: ResponsesRequest, { offered = [] }: Tools, marks: Marks): void {
  if (offered.some(({ custom }) => custom?.format?.type === 'grammar')) marks.add('tools[].format')
  for (const tool of tools) {
    const found = isHosted(tool) && offered.find(({ native }) => native?.definition === tool)
    if (!found) continue
    const field = toolField(tool.type)
    marks.add(field)
    if (found.native?.isOptional) marks.addOptionalTool(field)
    else if (isServerTool(tool)) marks.addServerTool(tool.type.slice(0, 100))
  }
}

const LOGPROBS = 'message.output_text.logprobs'

/** Returns the native options of a request. Undefined if it has none. */
function toNative(
  request: ResponsesRequest,
  { hostedChoice }: Pick<Tools, 'hostedChoice'>,
  { names }: Pick<Marks, 'names'>,
): NativeOptions | undefined {
  const fields = { ...nativeMembers(request), ...(hostedChoice && { tool_choice: hostedChoice }) }
  if (names.length === 0 && Object.keys(fields).length === 0) return undefined
  const required = serverToolsIn(fields)
  return { origin: RESPONSES_ORIGIN, fields, headers: {}, marks: names, ...(required.length > 0 && { required }) }
}

function toOptions(
  request: ResponsesRequest,
  { offered, choice }: Tools,
  native: NativeOptions | undefined,
): GenerationOptions | undefined {
  const { text, include = [], top_logprobs: topLogprobs } = request
  return askedOptions({
    tools: offered,
    toolChoice: choice,
    parallelToolCalls: request.parallel_tool_calls,
    responseFormat: text?.format && toResponseFormat(text.format),
    topP: request.top_p,
    logprobs: include.includes(LOGPROBS) || (topLogprobs ?? 0) > 0 ? true : undefined,
    topLogprobs: topLogprobs === 0 ? undefined : topLogprobs,
    // The original API uses `safety_identifier` as the newer name of `user`.
    user: request.user ?? request.safety_identifier,
    reasoningEffort: request.reasoning?.effort,
    native,
  })
}

type Format = NonNullable<NonNullable<ResponsesRequest['text']>['format']>

function toResponseFormat(format: Format): ResponseFormat {
  if (format.type !== 'json_schema') return { type: format.type }
  const { type, name, schema, strict, description } = format
  return { type, name, schema, strict, description }
}
