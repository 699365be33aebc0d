import { z } from 'zod'
import { GatewayExtension, SHARED_CHAT_FIELDS } from './chat.ts'
import { anObject, flag, oneOf, optional, tokenLimit } from './common.ts'
import { longList } from './long-list.ts'
import {
  AssistantBlock,
  cached,
  RedactedThinkingBlock,
  SystemText,
  TextBlock,
  ThinkingBlock,
  ToolUseBlock,
  UserBlock,
} from './message-blocks.ts'

export const MESSAGES_PATH = '/api/external/v1/messages'
export const COUNT_TOKENS_PATH = `${MESSAGES_PATH}/count_tokens`

const Message = z.discriminatedUnion(
  'role',
  [
    z.object({
      role: z.literal('user'),
      content: z.union([z.string(), longList(z.array(UserBlock))], {
        error:
          'content must be a string or an array of text, image, document, search_result and tool_result blocks, with images and documents as base64, https URL or text',
      }),
    }),
    z.object({
      role: z.literal('assistant'),
      content: z.union([z.string(), longList(z.array(AssistantBlock))], {
        error: 'content must be a string or an array of text, tool_use, thinking and redacted_thinking blocks',
      }),
    }),
    z.object({
      role: z.literal('system'),
      content: z.union([z.string(), z.array(SystemText)], {
        error: 'content of a system message must be a string or an array of text blocks',
      }),
    }),
  ],
  { error: 'each message must be an object whose role is user, assistant or system' },
)

const OwnTool = z.looseObject({
  type: optional(z.literal('custom')),
  name: z.string(),
  description: optional(z.string()),
  input_schema: z.looseObject({}),
  strict: optional(z.boolean()),
  ...cached,
})
/** A tool that Anthropic defines. The client runs client tools; the provider runs server tools. */
const TypedTool = z.looseObject({
  type: z
    .string()
    .regex(/^[a-z][a-z_]{0,63}(_\d{8})?$/)
    .refine((type) => type !== 'custom'),
  name: optional(z.string()),
  ...cached,
})
const Tool = z.union([OwnTool, TypedTool], {
  error: 'each tool must be {name, description, input_schema}, or a tool of Anthropic with its type',
})

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
    z.looseObject({ type: z.literal('enabled'), budget_tokens: z.int().min(1) }),
    z.looseObject({ type: z.literal('adaptive') }),
    z.looseObject({ type: z.literal('disabled') }),
  ],
  { error: 'thinking must be {type: "enabled", budget_tokens}, {type: "adaptive"} or {type: "disabled"}' },
)

const OutputFormat = z.object(
  { type: z.literal('json_schema'), schema: z.looseObject({}) },
  { error: 'an output format must be {type: "json_schema", schema}' },
)

/**
 * The body of POST /v1/messages: Anthropic's Messages API with the gateway's extensions. Other members are sent unchanged
 * to a provider with this API (`otherMembers`).
 */
export const MessagesRequest = z
  .looseObject(
    {
      ...SHARED_CHAT_FIELDS,
      max_tokens: tokenLimit('max_tokens'),
      system: optional(
        z.union([z.string(), longList(z.array(SystemText))], {
          error: 'system must be a string or an array of text blocks',
        }),
      ),
      messages: longList(
        z.array(Message, { error: 'messages must be an array' }).min(1, { error: 'messages must not be empty' }),
      ),
      tools: optional(longList(z.array(Tool, { error: 'tools must be an array' }))),
      tool_choice: optional(ToolChoice),
      stop_sequences: optional(z.array(z.string(), { error: 'stop_sequences must be an array of strings' })),
      top_p: optional(z.number({ error: 'top_p must be a number' })),
      top_k: optional(z.int({ error: 'top_k must be a whole number' })),
      thinking: optional(Thinking),
      output_config: optional(
        z.looseObject({
          effort: optional(oneOf('output_config.effort', ['low', 'medium', 'high', 'xhigh', 'max'])),
          format: optional(OutputFormat),
        }),
      ),
      output_format: optional(OutputFormat).meta({ description: 'The older name of output_config.format' }),
      metadata: optional(z.looseObject({ user_id: optional(z.string()) })),
      ...cached,
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

/** Returns the members of a request that the gateway does not interpret. */
export function otherMembers(request: Partial<MessagesRequest>): Record<string, unknown> {
  const others = Object.entries(request).filter(
    ([name, value]) => value !== undefined && (!Object.hasOwn(MessagesRequest.shape, name) || name === 'cache_control'),
  )
  return Object.fromEntries(others)
}

const { model, smltp_policy, prompt_shield, system, messages, tools, tool_choice, thinking, output_config } =
  MessagesRequest.shape

/**
 * The body of POST /v1/messages/count_tokens. It has the members that the model reads and the members that guards need.
 */
export const CountTokensRequest = z
  .looseObject(
    {
      ...{ model, smltp_policy, prompt_shield, system, messages, tools, tool_choice, thinking, output_config },
      output_format: MessagesRequest.shape.output_format,
      ...cached,
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

const NativeObject = z.looseObject({ type: z.string() })
/** A block or a citation in Anthropic's own form. */
export type NativeObject = z.infer<typeof NativeObject>
const ContentBlock = z.union([
  z.discriminatedUnion('type', [
    TextBlock.extend({ citations: z.array(NativeObject).optional() }),
    ToolUseBlock,
    ThinkingBlock,
    RedactedThinkingBlock,
  ]),
  NativeObject,
])
export type MessagesBlock = z.infer<typeof ContentBlock>

const StopReason = z.enum([
  'end_turn',
  'stop_sequence',
  'tool_use',
  'max_tokens',
  'model_context_window_exceeded',
  'refusal',
  'pause_turn',
])
export type MessagesStopReason = z.infer<typeof StopReason>

const MessagesUsage = z.object({
  input_tokens: z.int().meta({ description: 'Without tokens that were read from or written to the cache' }),
  output_tokens: z.int(),
  cache_creation_input_tokens: z.int(),
  cache_read_input_tokens: z.int(),
  cache_creation: z
    .object({ ephemeral_5m_input_tokens: z.int(), ephemeral_1h_input_tokens: z.int() })
    .optional()
    .meta({ description: 'Tokens written to the cache, by lifetime. Present only if there are some' }),
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
    stop_sequence: z
      .string()
      .nullable()
      .meta({ description: 'The sequence that matched; null if the provider does not name it' }),
    usage: MessagesUsage,
    gateway: GatewayExtension,
  })
  .meta({ id: 'MessagesResponse' })
export type MessagesResponse = z.infer<typeof MessagesResponse>

/** The body of every error response of /v1/messages, and of the error event in a broken stream. */
export const MessagesError = z
  .looseObject({
    type: z.literal('error'),
    success: z.literal(false),
    error: z.object({
      type: z.string().meta({ example: 'invalid_request_error' }),
      message: z.string(),
      code: z.string().meta({ description: 'A stable word, see docs/errors.md', example: 'rate_limit_exceeded' }),
      details: z.object({ error_code: z.string() }).optional(),
    }),
    retryable: z.boolean().meta({ description: 'Whether the same request may succeed later' }),
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
        z.object({ type: z.literal('citations_delta'), citation: NativeObject }),
      ]),
    }),
    z.object({ type: z.literal('content_block_stop'), index: z.int() }),
    z.object({
      type: z.literal('message_delta'),
      delta: z.object({ stop_reason: StopReason, stop_sequence: z.string().nullable() }),
      usage: MessagesUsage,
    }),
    z.object({ type: z.literal('message_stop') }),
    z.object({ type: z.literal('ping') }).meta({ description: 'Sent while the model is silent' }),
    MessagesError,
  ])
  .meta({ id: 'MessagesEvent' })
export type MessagesEvent = z.infer<typeof MessagesEvent>
