import { z } from 'zod'
import { GatewayExtension, SHARED_CHAT_FIELDS } from './chat.ts'
import { anObject, flag, oneOf, optional, tokenLimit } from './common.ts'

export const MESSAGES_PATH = '/api/external/v1/messages'
export const COUNT_TOKENS_PATH = `${MESSAGES_PATH}/count_tokens`

const TextBlock = z.object({ type: z.literal('text'), text: z.string() })
const ImageBlock = z.object({
  type: z.literal('image'),
  source: z.object({ type: z.literal('base64'), media_type: z.string(), data: z.base64() }),
})
const ToolUseBlock = z.object({
  type: z.literal('tool_use'),
  id: z.string(),
  name: z.string(),
  input: z.looseObject({}),
})
const ThinkingBlock = z.object({ type: z.literal('thinking'), thinking: z.string(), signature: z.string() })
const RedactedThinkingBlock = z.object({ type: z.literal('redacted_thinking'), data: z.string() })
const ToolResultBlock = z.object({
  type: z.literal('tool_result'),
  tool_use_id: z.string(),
  content: optional(z.union([z.string(), z.array(z.discriminatedUnion('type', [TextBlock, ImageBlock]))])),
  is_error: optional(z.boolean()),
})

const Message = z.discriminatedUnion(
  'role',
  [
    z.object({
      role: z.literal('user'),
      content: z.union([z.string(), z.array(z.discriminatedUnion('type', [TextBlock, ImageBlock, ToolResultBlock]))], {
        error: 'content must be a string or an array of text, tool_result and image blocks, images as base64',
      }),
    }),
    z.object({
      role: z.literal('assistant'),
      content: z.union(
        [
          z.string(),
          z.array(z.discriminatedUnion('type', [TextBlock, ToolUseBlock, ThinkingBlock, RedactedThinkingBlock])),
        ],
        { error: 'content must be a string or an array of text, tool_use, thinking and redacted_thinking blocks' },
      ),
    }),
  ],
  { error: 'each message must be an object whose role is user or assistant' },
)

const Tool = z.object(
  {
    type: optional(z.literal('custom', { error: 'a tool must be of type custom, because the gateway runs no tools' })),
    name: z.string(),
    description: optional(z.string()),
    input_schema: z.looseObject({}),
    strict: optional(z.boolean()),
  },
  { error: 'each tool must be {name, description, input_schema}, because the gateway runs no tools' },
)

const single = { disable_parallel_tool_use: optional(flag('tool_choice.disable_parallel_tool_use')) }
const ToolChoice = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.enum(['auto', 'any', 'none']), ...single }),
    z.object({ type: z.literal('tool'), name: z.string(), ...single }),
  ],
  { error: 'tool_choice must be an object whose type is auto, any, none or tool' },
)

const Thinking = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('enabled'), budget_tokens: z.int().min(1) }),
    z.object({ type: z.literal('adaptive') }),
    z.object({ type: z.literal('disabled') }),
  ],
  { error: 'thinking must be {type: "enabled", budget_tokens}, {type: "adaptive"} or {type: "disabled"}' },
)

const OutputFormat = z.object(
  { type: z.literal('json_schema'), schema: z.looseObject({}) },
  { error: 'an output format must be {type: "json_schema", schema}' },
)

/** The body of POST /v1/messages: Anthropic's Messages API with the gateway's extensions. */
export const MessagesRequest = z
  .object(
    {
      ...SHARED_CHAT_FIELDS,
      max_tokens: tokenLimit('max_tokens'),
      system: optional(
        z.union([z.string(), z.array(TextBlock)], { error: 'system must be a string or an array of text blocks' }),
      ),
      messages: z
        .array(Message, { error: 'messages must be an array' })
        .min(1, { error: 'messages must not be empty' }),
      tools: optional(z.array(Tool, { error: 'tools must be an array' })),
      tool_choice: optional(ToolChoice),
      stop_sequences: optional(z.array(z.string(), { error: 'stop_sequences must be an array of strings' })),
      top_p: optional(z.number({ error: 'top_p must be a number' })),
      top_k: optional(z.int({ error: 'top_k must be a whole number' })),
      thinking: optional(Thinking),
      output_config: optional(
        z.object({
          effort: optional(oneOf('output_config.effort', ['low', 'medium', 'high', 'xhigh', 'max'])),
          format: optional(OutputFormat),
        }),
      ),
      output_format: optional(OutputFormat).meta({ description: 'The older name of output_config.format' }),
      metadata: optional(z.object({ user_id: optional(z.string()) })),
      thread: optional(
        z
          .object({ type: z.string() })
          .meta({ description: 'Conversations are not stored: `create` has no effect, `continue` is a 404' }),
      ),
    },
    anObject,
  )
  .meta({ id: 'MessagesRequest' })
export type MessagesRequest = z.infer<typeof MessagesRequest>

const { model, smltp_policy, prompt_shield, system, messages, tools, tool_choice, thinking, output_config } =
  MessagesRequest.shape

/**
 * The body of POST /v1/messages/count_tokens. It has the members that the model reads and the members that guards need.
 */
export const CountTokensRequest = z
  .object(
    {
      ...{ model, smltp_policy, prompt_shield, system, messages, tools, tool_choice, thinking, output_config },
      output_format: MessagesRequest.shape.output_format,
    },
    anObject,
  )
  .meta({ id: 'CountTokensRequest' })
export type CountTokensRequest = z.infer<typeof CountTokensRequest>

/** 200 of POST /v1/messages/count_tokens. */
export const CountTokensResponse = z
  .object({
    input_tokens: z.int(),
    gateway: GatewayExtension.extend({
      estimated: z
        .boolean()
        .meta({ description: 'True if the gateway estimated the count, because the API of the provider cannot count' }),
    }),
  })
  .meta({ id: 'CountTokensResponse' })
export type CountTokensResponse = z.infer<typeof CountTokensResponse>

const ContentBlock = z.discriminatedUnion('type', [TextBlock, ToolUseBlock, ThinkingBlock, RedactedThinkingBlock])
export type MessagesBlock = z.infer<typeof ContentBlock>

const StopReason = z.enum([
  'end_turn',
  'stop_sequence',
  'tool_use',
  'max_tokens',
  'model_context_window_exceeded',
  'refusal',
])
export type MessagesStopReason = z.infer<typeof StopReason>

const MessagesUsage = z.object({
  input_tokens: z.int().meta({ description: 'Without tokens that were read from or written to the cache' }),
  output_tokens: z.int(),
  cache_creation_input_tokens: z.int(),
  cache_read_input_tokens: z.int(),
})
export type MessagesUsage = z.infer<typeof MessagesUsage>

/** The 200 response of POST /v1/messages without `stream`. */
export const MessagesResponse = z
  .object({
    id: z.string().meta({ example: 'msg_6745f0c8a1b2c3d4e5f60718' }),
    type: z.literal('message'),
    role: z.literal('assistant'),
    model: z.string(),
    content: z.array(ContentBlock),
    stop_reason: StopReason.nullable(),
    stop_sequence: z.null().meta({ description: 'Always null: the gateway does not know which sequence matched' }),
    usage: MessagesUsage,
    gateway: GatewayExtension,
  })
  .meta({ id: 'MessagesResponse' })
export type MessagesResponse = z.infer<typeof MessagesResponse>

/** The body of every error response of /v1/messages, and of the error event in a broken stream. */
export const MessagesError = z
  .looseObject({
    type: z.literal('error'),
    error: z.object({
      type: z.string().meta({ example: 'invalid_request_error' }),
      message: z.string(),
      details: z.object({ error_code: z.string() }).optional(),
    }),
    request_id: z.string(),
  })
  .meta({ id: 'MessagesError' })
export type MessagesError = z.infer<typeof MessagesError>

/** One event of a streamed answer, named by its `type`. The stream ends with a `message_stop` or an `error` event. */
export const MessagesEvent = z
  .discriminatedUnion('type', [
    z.object({ type: z.literal('message_start'), message: MessagesResponse }),
    z.object({ type: z.literal('content_block_start'), index: z.int(), content_block: ContentBlock }),
    z.object({
      type: z.literal('content_block_delta'),
      index: z.int(),
      delta: z.discriminatedUnion('type', [
        z.object({ type: z.literal('text_delta'), text: z.string() }),
        z.object({ type: z.literal('thinking_delta'), thinking: z.string() }),
        z.object({ type: z.literal('signature_delta'), signature: z.string() }),
        z.object({ type: z.literal('input_json_delta'), partial_json: z.string() }),
      ]),
    }),
    z.object({ type: z.literal('content_block_stop'), index: z.int() }),
    z.object({
      type: z.literal('message_delta'),
      delta: z.object({ stop_reason: StopReason, stop_sequence: z.null() }),
      usage: MessagesUsage,
    }),
    z.object({ type: z.literal('message_stop') }),
    MessagesError,
  ])
  .meta({ id: 'MessagesEvent' })
export type MessagesEvent = z.infer<typeof MessagesEvent>
