// The wire format of OpenAI's Responses API. The file is long, because this API has many kinds of items and events.
import { z } from 'zod'
import { INPUT_ITEMS_PER_PAGE } from '../spec-limits.ts'
import { GatewayExtension, SHARED_CHAT_FIELDS } from './chat.ts'
import { anObject, flag, oneOf, optional, reasoningEffort, tokenLimit } from './common.ts'
import { longList } from './long-list.ts'
import { HttpsUrl } from './message-blocks.ts'

export const RESPONSES_PATH = '/api/external/v1/responses'

const text = (name: string) => z.string({ error: `${name} must be a string` })

/**
 * Members that clients copy from an earlier answer, and that do not affect the next answer. A request may contain them
 * at any item.
 */
const COPIED = { id: optional(z.string()), status: optional(z.string()) }

/** The id of a file that the provider stores. */
const FileId = z.string().regex(/^[\w-]{1,128}$/, { error: 'file_id must be the id of a file' })

const InputText = z.looseObject({ type: z.literal('input_text'), text: z.string() })
const InputImage = z.looseObject({
  type: z.literal('input_image'),
  image_url: optional(z.string()).meta({ description: 'A data: URL, or an https URL, which the provider fetches' }),
  file_id: optional(FileId),
  detail: optional(oneOf('detail', ['low', 'high', 'auto', 'original'])),
})
const InputFile = z.looseObject({
  type: z.literal('input_file'),
  file_data: optional(z.string()).meta({ description: 'A data: URL' }),
  file_url: optional(HttpsUrl),
  file_id: optional(FileId),
  filename: optional(z.string()),
})
const OutputText = z.looseObject({
  type: z.literal('output_text'),
  text: z.string(),
  annotations: optional(z.array(z.unknown())),
  logprobs: optional(z.array(z.unknown())),
})
const Refusal = z.looseObject({ type: z.literal('refusal'), refusal: z.string() })

const UserContent = z.union([
  z.string(),
  longList(z.array(z.discriminatedUnion('type', [InputText, InputImage, InputFile]))),
])
const AssistantContent = z.union([
  z.string(),
  longList(z.array(z.discriminatedUnion('type', [InputText, OutputText, Refusal]))),
])
const InstructionContent = z.union([z.string(), longList(z.array(InputText))])

const messageType = { type: optional(z.literal('message')) }
const MessageItem = z.discriminatedUnion('role', [
  z.looseObject({ ...messageType, ...COPIED, role: z.literal('user'), content: UserContent }),
  z.looseObject({
    ...messageType,
    ...COPIED,
    role: z.literal('assistant'),
    content: AssistantContent,
    phase: optional(z.string()),
  }),
  z.looseObject({ ...messageType, ...COPIED, role: z.enum(['system', 'developer']), content: InstructionContent }),
])

const CallItem = z.discriminatedUnion('type', [
  z.looseObject({
    ...COPIED,
    type: z.literal('function_call'),
    call_id: z.string(),
    name: z.string(),
    namespace: optional(z.string()),
    arguments: z.string(),
  }),
  z.looseObject({
    ...COPIED,
    type: z.enum(['function_call_output', 'custom_tool_call_output']),
    call_id: z.string(),
    output: UserContent,
  }),
  z.looseObject({
    ...COPIED,
    type: z.literal('custom_tool_call'),
    call_id: z.string(),
    name: z.string(),
    namespace: optional(z.string()),
    input: z.string(),
  }),
  z.looseObject({
    ...COPIED,
    type: z.literal('reasoning'),
    summary: optional(z.array(z.looseObject({ type: z.literal('summary_text'), text: z.string() }))),
    content: optional(z.array(z.looseObject({ type: z.literal('reasoning_text'), text: z.string() }))),
    encrypted_content: optional(z.string()),
  }),
  z.looseObject({ type: z.literal('item_reference'), id: z.string() }).meta({
    description: 'An item of a stored answer; a 400 if it is unknown',
  }),
])

/** The steps of tools that OpenAI defines. New ones have types that end alike. */
type HostedItemType =
  | 'web_search_call'
  | 'file_search_call'
  | 'code_interpreter_call'
  | 'image_generation_call'
  | 'computer_call'
  | 'computer_call_output'
  | 'local_shell_call'
  | 'local_shell_call_output'
  | 'shell_call'
  | 'shell_call_output'
  | 'apply_patch_call'
  | 'apply_patch_call_output'
  | 'mcp_call'
  | 'mcp_list_tools'
  | 'mcp_approval_request'
  | 'mcp_approval_response'
  | 'tool_search_call'
  | 'tool_search_output'
  | 'compaction'
  | 'program'
  | 'program_output'
const HostedType = z
  .string()
  .regex(/^(\w+_call(_output)?|mcp_\w+|tool_search_\w+|compaction|program(_output)?)$/)
  // The calls of the client's own tools have other schemas.
  .refine((type) => !/^(function|custom_tool)_call/.test(type))
  .meta({ example: 'web_search_call' }) as unknown as z.ZodType<HostedItemType>
const HostedItem = z.looseObject({ type: HostedType, id: optional(z.string()), call_id: optional(z.string()) }).meta({
  description: "A step of a tool that OpenAI defines. Only a provider of kind openai with 'api: responses' accepts it",
})

export type HostedItem = z.infer<typeof HostedItem>

const InputItem = z.union([MessageItem, CallItem, HostedItem], {
  error:
    'each item of input must be a valid message, function_call, function_call_output, custom_tool_call, ' +
    'custom_tool_call_output, reasoning, item_reference or an item of a tool of OpenAI such as web_search_call',
})
export type InputItem = z.infer<typeof InputItem>
/** Items that do not come from the body of a request, such as those of a stored answer. */
export const InputItemList = z.array(InputItem)

const FunctionTool = z.looseObject({
  type: z.literal('function'),
  name: z.string(),
  description: optional(z.string()),
  parameters: optional(z.looseObject({})),
  strict: optional(z.boolean()),
})
const CustomTool = z.looseObject({
  type: z.literal('custom'),
  name: z.string(),
  description: optional(z.string()),
  format: optional(
    z.discriminatedUnion('type', [
      z.looseObject({ type: z.literal('text') }),
      z.looseObject({ type: z.literal('grammar'), syntax: z.enum(['lark', 'regex']), definition: z.string() }),
    ]),
  ),
})
export type OwnTool = z.infer<typeof FunctionTool> | z.infer<typeof CustomTool>

const NamespaceTool = z.looseObject({
  type: z.literal('namespace'),
  name: z.string(),
  description: optional(z.string()),
  tools: z.array(z.discriminatedUnion('type', [FunctionTool, CustomTool])),
})

const RUN_BY_CLIENT: readonly string[] = ['function', 'custom', 'namespace']
/** A tool that OpenAI defines, such as `web_search`. OpenAI runs most of these tools itself. */
const HostedTool = z.looseObject({
  type: z
    .string()
    .refine((type) => !RUN_BY_CLIENT.includes(type))
    .meta({ description: 'A tool of OpenAI, such as `web_search`. See docs/clients.md' }),
})
export type HostedTool = z.infer<typeof HostedTool>

const ResponsesTool = z.union([FunctionTool, CustomTool, NamespaceTool, HostedTool], {
  error:
    'each tool must be {type: "function", name, description, parameters, strict}, {type: "custom", name, description, format} ' +
    'or {type: "namespace", name, description, tools}',
})
export type ResponsesTool = z.infer<typeof ResponsesTool>

const NamedTool = z.looseObject({ type: z.enum(['function', 'custom']), name: z.string() })
const HostedChoice = z.looseObject({
  type: z.string().refine((type) => !['allowed_tools', ...RUN_BY_CLIENT].includes(type)),
})
const ToolChoice = z.union(
  [
    z.enum(['auto', 'none', 'required']),
    NamedTool,
    z.looseObject({
      type: z.literal('allowed_tools'),
      mode: z.enum(['auto', 'required']),
      tools: z.array(z.union([NamedTool, HostedChoice])),
    }),
    HostedChoice,
  ],
  {
    error:
      'tool_choice must be auto, none, required, {type: "function" or "custom", name}, {type: "allowed_tools", mode, tools} or {type} of a tool of OpenAI',
  },
)

const TextFormat = z.discriminatedUnion(
  'type',
  [
    z.looseObject({ type: z.literal('text') }),
    z.looseObject({ type: z.literal('json_object') }),
    z.looseObject({
      type: z.literal('json_schema'),
      name: z.string(),
      schema: z.looseObject({}),
      strict: optional(z.boolean()),
      description: optional(z.string()),
    }),
  ],
  { error: 'text.format must be an object whose type is text, json_object or json_schema' },
)

const absent = (error: string) => optional(z.never({ error }))

/**
 * The body of POST /v1/responses. Unknown members are sent to a provider with this API. Otherwise they are dropped, and
 * the answer lists them in `gateway.dropped`.
 */
export const ResponsesRequest = z
  .looseObject(
    {
      ...SHARED_CHAT_FIELDS,
      input: z.union([z.string(), longList(z.array(InputItem).min(1, { error: 'input must not be empty' }))], {
        error: (issue) => (issue.input === undefined ? 'Send `input`: a string or an array of items.' : undefined),
      }),
      instructions: optional(text('instructions')),
      max_output_tokens: optional(tokenLimit('max_output_tokens')),
      tools: optional(longList(z.array(ResponsesTool, { error: 'tools must be an array' }))),
      tool_choice: optional(ToolChoice),
      parallel_tool_calls: optional(flag('parallel_tool_calls')),
      text: optional(
        z.looseObject({ format: optional(TextFormat) }, { error: 'text must be an object {format, verbosity}' }),
      ),
      reasoning: optional(
        z.looseObject(
          { effort: optional(reasoningEffort('reasoning.effort')), summary: optional(text('reasoning.summary')) },
          { error: 'reasoning must be an object {effort, summary}' },
        ),
      ),
      include: optional(z.array(z.string(), { error: 'include must be an array of strings' })),
      truncation: optional(oneOf('truncation', ['auto', 'disabled'])),
      metadata: optional(
        z.record(z.string(), z.string(), { error: 'metadata must be an object of strings' }).meta({
          description: 'Returned unchanged; models do not receive it',
        }),
      ),
      top_p: optional(z.number({ error: 'top_p must be a number' })),
      top_logprobs: optional(z.int({ error: 'top_logprobs must be a whole number' })),
      user: optional(text('user')),
      safety_identifier: optional(text('safety_identifier')),
      store: optional(flag('store')).meta({
        description: 'Whether to keep the answer. It has an effect only if the operator turns storing on',
      }),
      previous_response_id: optional(text('previous_response_id')).meta({
        description: 'The stored answer that this request continues. Otherwise a 400 `previous_response_not_found`',
      }),
      background: optional(
        z.literal(false, { error: 'background must be false: the gateway runs no answers in the background' }),
      ),
      conversation: absent('conversation is not supported: the gateway stores no conversations. Send all items.'),
      prompt: absent('prompt is not supported: the gateway stores no prompt templates. Send instructions and input.'),
      stream_options: optional(
        z.looseObject({ include_obfuscation: optional(flag('stream_options.include_obfuscation')) }),
      ),
    },
    anObject,
  )
  .meta({ id: 'ResponsesRequest' })
export type ResponsesRequest = z.infer<typeof ResponsesRequest>

/** A source of a text: a page of a web search, or a file. */
const Annotation = z.looseObject({ type: z.string().meta({ example: 'url_citation' }) })

const ItemStatus = z.enum(['in_progress', 'completed', 'incomplete'])
const Logprob = z.looseObject({ token: z.string() })
const OutputTextPart = z.object({
  type: z.literal('output_text'),
  text: z.string(),
  annotations: z.array(Annotation),
  logprobs: z.array(Logprob),
})
const SummaryPart = z.object({ type: z.literal('summary_text'), text: z.string() })

const OwnOutputItem = z.discriminatedUnion('type', [
  z.object({
    id: z.string(),
    type: z.literal('message'),
    status: ItemStatus,
    role: z.literal('assistant'),
    content: z.array(OutputTextPart),
  }),
  z.object({
    id: z.string(),
    type: z.literal('reasoning'),
    summary: z.array(SummaryPart),
    encrypted_content: z.string().optional().meta({
      description: 'Signed or encrypted reasoning, with its origin. Send the item back unchanged in the next request',
    }),
  }),
  z.object({
    id: z.string(),
    type: z.literal('function_call'),
    status: ItemStatus,
    call_id: z.string(),
    name: z.string(),
    namespace: z.string().optional(),
    arguments: z.string(),
  }),
  z.object({
    id: z.string(),
    type: z.literal('custom_tool_call'),
    status: ItemStatus,
    call_id: z.string(),
    name: z.string(),
    namespace: z.string().optional(),
    input: z.string(),
  }),
])
const HostedOutputItem = z.looseObject({ id: z.string(), type: HostedType }).meta({
  description: 'A step of a tool that OpenAI defines, as the provider sent it, except for its id',
})
const OutputItem = z.union([OwnOutputItem, HostedOutputItem]).meta({ id: 'ResponsesOutputItem' })
export type HostedOutputItem = z.infer<typeof HostedOutputItem>
export type OutputItem = z.infer<typeof OutputItem>

const ResponsesUsage = z.object({
  input_tokens: z.int(),
  input_tokens_details: z.object({ cached_tokens: z.int() }),
  output_tokens: z.int(),
  output_tokens_details: z.object({ reasoning_tokens: z.int() }),
  total_tokens: z.int(),
})
export type ResponsesUsage = z.infer<typeof ResponsesUsage>

const INCOMPLETE_REASONS = ['max_output_tokens', 'content_filter'] as const

/** The 200 response of POST /v1/responses without `stream`. */
const ResponsesFault = z.object({ code: z.string().meta({ example: 'server_error' }), message: z.string() })

export const ResponsesResponse = z
  .object({
    id: z.string().meta({ example: 'resp_6745f0c8a1b2c3d4e5f60718' }),
    object: z.literal('response'),
    created_at: z.int(),
    status: z.enum(['in_progress', 'completed', 'incomplete', 'failed']),
    background: z.literal(false),
    error: ResponsesFault.nullable().meta({ description: 'Set only in `response.failed`' }),
    incomplete_details: z.object({ reason: z.enum(INCOMPLETE_REASONS) }).nullable(),
    instructions: z.string().nullable(),
    max_output_tokens: z.int().nullable(),
    metadata: z.record(z.string(), z.string()),
    model: z.string(),
    output: z.array(OutputItem),
    parallel_tool_calls: z.boolean(),
    previous_response_id: z.string().nullable(),
    reasoning: z.object({ effort: z.string().nullable(), summary: z.string().nullable() }),
    store: z.boolean().meta({ description: 'Always false unless the operator turns storing on' }),
    temperature: z.number().nullable(),
    text: z.object({ format: z.looseObject({ type: z.string() }) }),
    tool_choice: z.union([z.string(), z.looseObject({})]),
    tools: z.array(z.looseObject({ type: z.string() })),
    top_p: z.number().nullable(),
    truncation: z.enum(['auto', 'disabled']),
    usage: ResponsesUsage.nullable(),
    user: z.string().optional(),
    gateway: GatewayExtension,
  })
  .meta({ id: 'ResponsesResponse' })
export type ResponsesResponse = z.infer<typeof ResponsesResponse>

/** 200 of DELETE /v1/responses/{responseId}. */
export const DeletedResponse = z
  .object({ id: z.string(), object: z.literal('response'), deleted: z.literal(true) })
  .meta({ id: 'DeletedResponse' })
export type DeletedResponse = z.infer<typeof DeletedResponse>

/** The query of GET /v1/responses/{responseId}/input_items. */
export const InputItemsQuery = z.object({
  order: oneOf('order', ['asc', 'desc']).default('desc'),
  limit: z.coerce
    .number({ error: 'limit must be a whole number' })
    .int({ error: 'limit must be a whole number' })
    .min(1, { error: 'limit must be at least 1' })
    .max(INPUT_ITEMS_PER_PAGE.max, { error: `limit must be at most ${INPUT_ITEMS_PER_PAGE.max}` })
    .default(INPUT_ITEMS_PER_PAGE.default),
  after: text('after').optional(),
})
export type InputItemsQuery = z.infer<typeof InputItemsQuery>

/** 200 of GET /v1/responses/{responseId}/input_items. */
export const InputItems = z
  .object({
    object: z.literal('list'),
    data: z.array(z.looseObject({ id: z.string() })),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  })
  .meta({ id: 'InputItems' })
export type InputItems = z.infer<typeof InputItems>

const inItem = { item_id: z.string(), output_index: z.int() }
const event = <const Type extends string, Shape extends z.core.$ZodLooseShape>(type: Type, shape: Shape) =>
  z.object({ type: z.literal(type), sequence_number: z.int(), ...shape })
/** Set if a guard blocked the answer. */
const verdict = {
  verdict: z.literal('BLOCK').optional(),
  attack_category: z.string().nullable().optional(),
  trace_id: z.string().optional(),
}

/**
 * One event of a streamed answer, named by its `type`. `sequence_number` rises from 0. The stream ends with exactly one
 * of `response.completed`, `response.incomplete` and `response.failed`.
 */
export const ResponsesEvent = z
  .discriminatedUnion('type', [
    event('response.created', { response: ResponsesResponse }),
    event('response.in_progress', { response: ResponsesResponse }),
    event('response.output_item.added', { output_index: z.int(), item: OutputItem }),
    event('response.content_part.added', { ...inItem, content_index: z.literal(0), part: OutputTextPart }),
    event('response.output_text.delta', {
      ...inItem,
      content_index: z.literal(0),
      delta: z.string(),
      logprobs: z.array(Logprob),
    }),
    event('response.output_text.done', {
      ...inItem,
      content_index: z.literal(0),
      text: z.string(),
      logprobs: z.array(Logprob),
    }),
    event('response.output_text.annotation.added', {
      ...inItem,
      content_index: z.literal(0),
      annotation_index: z.int(),
      annotation: Annotation,
    }),
    event('response.content_part.done', { ...inItem, content_index: z.literal(0), part: OutputTextPart }),
    event('response.reasoning_summary_part.added', { ...inItem, summary_index: z.literal(0), part: SummaryPart }),
    event('response.reasoning_summary_text.delta', { ...inItem, summary_index: z.literal(0), delta: z.string() }),
    event('response.reasoning_summary_text.done', { ...inItem, summary_index: z.literal(0), text: z.string() }),
    event('response.reasoning_summary_part.done', { ...inItem, summary_index: z.literal(0), part: SummaryPart }),
    event('response.function_call_arguments.delta', { ...inItem, delta: z.string() }),
    event('response.function_call_arguments.done', { ...inItem, name: z.string(), arguments: z.string() }),
    event('response.custom_tool_call_input.delta', { ...inItem, delta: z.string() }),
    event('response.custom_tool_call_input.done', { ...inItem, input: z.string() }),
    event('response.output_item.done', { output_index: z.int(), item: OutputItem }),
    event('response.completed', { response: ResponsesResponse }),
    event('response.incomplete', { response: ResponsesResponse }),
    event('response.failed', {
      response: ResponsesResponse,
      error: ResponsesFault.optional().meta({ description: "`response.error`. OpenAI's client throws it" }),
      ...verdict,
    }),
  ])
  .meta({ id: 'ResponsesEvent' })
export type ResponsesEvent = z.infer<typeof ResponsesEvent>
