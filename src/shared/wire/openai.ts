// The wire format of OpenAI's interface. The file is long, because it contains chat, embeddings and models.
import { z } from 'zod'
import { ANSWER_CHOICES_MAX, EMBEDDING_INPUTS } from '../spec-limits.ts'
import { FINISH_REASONS, GatewayExtension, SHARED_CHAT_FIELDS } from './chat.ts'
import { anObject, flag, oneOf, optional, reasoningEffort, tokenLimit } from './common.ts'
import { ModelDetails } from './discovery.ts'
import { longList } from './long-list.ts'
import { withoutTag } from './tags.ts'

export const OPENAI_CHAT_PATH = '/api/external/v1/chat/completions'
export const OPENAI_EMBEDDINGS_PATH = '/api/external/v1/embeddings'
export const OPENAI_MODELS_PATH = '/api/external/v1/models'
/** The name of a model contains slashes. Some clients escape them. */
export const OPENAI_MODEL_PATH = `${OPENAI_MODELS_PATH}/{model}`

const text = (name: string) => z.string({ error: `${name} must be a string` })
const number = (name: string) => z.number({ error: `${name} must be a number` })
const whole = (name: string) => z.int({ error: `${name} must be a whole number` })

/** How many answers a request gets. */
export const answerCount = optional(
  z
    .int({ error: 'n must be a whole number' })
    .min(1, { error: 'n must be at least 1' })
    .max(ANSWER_CHOICES_MAX, { error: `n must be at most ${ANSWER_CHOICES_MAX}` }),
)

/** The id of a file or audio that the provider stores. */
const FILE_ID = /^[\w-]{1,128}$/
const OldCall = z.object({ name: z.string(), arguments: z.string() })

const TextPart = z.looseObject({ type: z.literal('text'), text: z.string() })
const ImagePart = z.looseObject({
  type: z.literal('image_url'),
  image_url: z.looseObject({
    url: z.string().meta({ description: 'A data: URL, or an https URL, which the provider fetches' }),
    detail: optional(oneOf('detail', ['low', 'high', 'auto', 'original'])),
  }),
})
const AudioPart = z.looseObject({
  type: z.literal('input_audio'),
  input_audio: z.looseObject({ data: z.base64(), format: z.string().regex(/^[a-z0-9]{1,8}$/) }),
})
const FilePart = z.looseObject({
  type: z.literal('file'),
  file: z
    .looseObject({
      file_data: optional(z.string()).meta({ description: 'A data: URL' }),
      file_id: optional(z.string().regex(FILE_ID)),
      filename: optional(z.string()),
    })
    .refine(({ file_data: data, file_id: id }) => (data === undefined) !== (id === undefined), {
      error: 'a file must have either file_data or file_id',
    }),
})
const RefusalPart = z.looseObject({ type: z.literal('refusal'), refusal: z.string() })

const TextContent = z.union([z.string(), longList(z.array(TextPart))], {
  error: 'content must be a string or an array of text parts',
})
const UserPart = z.discriminatedUnion('type', [TextPart, ImagePart, AudioPart, FilePart])
const contentOf = (who: string) =>
  z.union([z.string(), longList(z.array(UserPart))], {
    error: `content of ${who} must be a string or an array of text, image_url, input_audio and file parts, each complete`,
  })

/** A step of a model's reasoning. Clients send it back unchanged. */
const ReasoningDetail = z.object({
  origin: z.string(),
  text: z.string().optional(),
  signature: z.string().optional(),
  data: z.string().optional(),
})

const FunctionCall = z.object({ id: z.string(), type: z.literal('function'), function: OldCall })
const CustomCall = z.object({
  id: z.string(),
  type: z.literal('custom'),
  custom: z.object({ name: z.string(), input: z.string() }),
})
const ToolCall = z.discriminatedUnion('type', [FunctionCall, CustomCall], {
  error:
    'each of tool_calls must be {id, type: "function", function: {name, arguments}} or {id, type: "custom", custom: {name, input}}',
})
const speaker = { name: optional(text('name')) }

const Message = z.discriminatedUnion(
  'role',
  [
    z.looseObject({ role: z.enum(['system', 'developer']), content: TextContent, ...speaker }),
    z.looseObject({ role: z.literal('user'), content: contentOf('a user message'), ...speaker }),
    z.looseObject({
      role: z.literal('assistant'),
      content: optional(
        z.union([z.string(), longList(z.array(z.union([TextPart, RefusalPart])))], {
          error: 'content must be a string or an array of text and refusal parts',
        }),
      ),
      refusal: optional(text('refusal')),
      audio: optional(
        z.looseObject(
          {
            id: z
              .string()
              .regex(FILE_ID, { error: 'the id of audio may have letters, digits, hyphens and underscores' }),
          },
          { error: 'audio of an assistant message must be an object with the id of an earlier answer' },
        ),
      ).meta({ description: 'The audio of an earlier answer. Only its id is sent' }),
      tool_calls: optional(longList(z.array(ToolCall, { error: 'tool_calls must be an array' }))),
      function_call: optional(OldCall),
      reasoning_content: optional(text('reasoning_content')),
      reasoning_details: optional(
        longList(
          z
            .array(
              z.looseObject({}).transform((detail) => ReasoningDetail.safeParse(detail).data),
              { error: 'reasoning_details must be an array of objects' },
            )
            .meta({ description: 'As received in an answer; those of other origin are dropped' }),
        ).transform((details) => details.filter((detail) => detail !== undefined)),
      ),
      ...speaker,
    }),
    z.looseObject({
      role: z.literal('tool'),
      tool_call_id: text('tool_call_id'),
      content: contentOf('a tool message'),
    }),
    z.looseObject({
      role: z.literal('function'),
      name: text('name'),
      content: optional(text('content')),
    }),
  ],
  { error: 'each message must be an object whose role is system, developer, user, assistant, tool or function' },
)

const FunctionTool = z.looseObject({
  type: z.literal('function'),
  function: z.looseObject({
    name: z.string(),
    description: optional(z.string()),
    parameters: optional(z.looseObject({})),
    strict: optional(z.boolean()),
  }),
})
const CustomTool = z.looseObject({
  type: z.literal('custom'),
  custom: z.looseObject({
    name: z.string(),
    description: optional(z.string()),
    format: optional(
      z.discriminatedUnion('type', [
        z.looseObject({ type: z.literal('text') }),
        z.looseObject({
          type: z.literal('grammar'),
          grammar: z.object({ syntax: z.enum(['lark', 'regex']), definition: z.string() }),
        }),
      ]),
    ),
  }),
})
const Tool = z.discriminatedUnion('type', [FunctionTool, CustomTool], {
  error:
    'each tool must be {type: "function", function: {name, description, parameters, strict}} or {type: "custom", custom: {name, description, format}}, because the gateway runs no tools',
})

const NamedTool = z.discriminatedUnion('type', [
  z.object({ type: z.literal('function'), function: z.object({ name: z.string() }) }),
  z.object({ type: z.literal('custom'), custom: z.object({ name: z.string() }) }),
])
export type NamedTool = z.infer<typeof NamedTool>
const ToolChoice = z.union(
  [
    z.enum(['auto', 'none', 'required']),
    NamedTool,
    z.object({
      type: z.literal('allowed_tools'),
      allowed_tools: z.object({ mode: z.enum(['auto', 'required']), tools: z.array(NamedTool).min(1) }),
    }),
  ],
  {
    error:
      'tool_choice must be auto, none, required, {type: "function", function: {name}}, {type: "custom", custom: {name}} or {type: "allowed_tools", allowed_tools: {mode, tools}}',
  },
)

/** The older form of a tool. */
const OldFunction = z.looseObject({
  name: z.string(),
  description: optional(z.string()),
  parameters: optional(z.looseObject({})),
})
const OldChoice = z.union([z.enum(['auto', 'none']), z.object({ name: z.string() })], {
  error: 'function_call must be auto, none or {name}',
})

const ResponseFormat = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('text') }),
    z.object({ type: z.literal('json_object') }),
    z.object({
      type: z.literal('json_schema'),
      json_schema: z.object(
        {
          name: z.string(),
          schema: optional(z.looseObject({})),
          strict: optional(z.boolean()),
          description: optional(z.string()),
        },
        { error: 'json_schema must be an object {name, schema, strict, description}' },
      ),
    }),
  ],
  { error: 'response_format must be an object whose type is text, json_object or json_schema' },
)

/**
 * The body of POST /v1/chat/completions. `surfaces/openai/input.ts` checks the rules that involve several fields. Other
 * members are sent unchanged to a provider with this API (`otherMembers`).
 */
export const OpenAiChatRequest = z
  .looseObject(
    {
      ...SHARED_CHAT_FIELDS,
      messages: longList(
        z.array(Message, { error: 'messages must be an array' }).min(1, { error: 'messages must not be empty' }),
      ),
      max_tokens: optional(tokenLimit('max_tokens')),
      max_completion_tokens: optional(tokenLimit('max_completion_tokens')),
      stream_options: optional(
        z.looseObject(
          { include_usage: optional(flag('stream_options.include_usage')) },
          { error: 'stream_options must be an object {include_usage}' },
        ),
      ),
      n: answerCount.meta({ description: 'The number of answers. Only providers with this API have more than one' }),
      tools: optional(longList(z.array(Tool, { error: 'tools must be an array' }))),
      tool_choice: optional(ToolChoice),
      parallel_tool_calls: optional(flag('parallel_tool_calls')),
      response_format: optional(ResponseFormat),
      stop: optional(
        z.union([z.string(), z.array(z.string())], { error: 'stop must be a string or an array of strings' }),
      ),
      top_p: optional(number('top_p')),
      frequency_penalty: optional(number('frequency_penalty')),
      presence_penalty: optional(number('presence_penalty')),
      seed: optional(whole('seed')),
      logprobs: optional(flag('logprobs')),
      top_logprobs: optional(whole('top_logprobs')),
      user: optional(text('user')),
      prompt_cache_key: optional(text('prompt_cache_key')),
      reasoning_effort: optional(reasoningEffort('reasoning_effort')),
      store: optional(flag('store')).meta({ description: 'Whether the provider keeps the answer' }),
      modalities: optional(
        z.array(oneOf('modalities', ['text', 'audio']), { error: 'modalities must be an array of text and audio' }),
      ),
      audio: optional(
        z.looseObject(
          {
            voice: z.union([z.string(), z.looseObject({})], { error: 'audio.voice must be a string or an object' }),
            format: z.string({ error: 'audio.format must be a string' }),
          },
          { error: 'audio must be an object {voice, format}' },
        ),
      ).meta({ description: 'Asks for a spoken answer. Only providers with this API have it' }),
      functions: optional(
        z.array(OldFunction, { error: 'functions must be an array of {name, description, parameters}' }),
      ).meta({ description: 'The older form of `tools`. The answer then has `function_call`, with at most one call' }),
      function_call: optional(OldChoice),
    },
    anObject,
  )
  .meta({ id: 'OpenAiChatRequest' })
export type OpenAiChatRequest = z.infer<typeof OpenAiChatRequest>

/** Members that the gateway interprets, and that the provider gets as well. */
const SHARED_MEMBERS = ['store', 'prompt_cache_key', 'audio']
/** The members that only the gateway interprets. */
const OWN_MEMBERS = new Set(Object.keys(OpenAiChatRequest.shape).filter((name) => !SHARED_MEMBERS.includes(name)))
const NO_MEMBERS: Readonly<Record<string, unknown>> = Object.freeze({})

/** Returns the members of a request that the gateway does not interpret. `null` means "not set". */
export function otherMembers(request: OpenAiChatRequest): Readonly<Record<string, unknown>> {
  let others: Record<string, unknown> | undefined
  for (const name of Object.keys(request)) {
    if (OWN_MEMBERS.has(name)) continue
    const value = name === 'metadata' ? withoutTag(request[name]) : request[name]
    if (value === undefined || value === null) continue
    others ??= {}
    // Defined instead of assigned, because the name may be `__proto__`.
    Object.defineProperty(others, name, { value, enumerable: true, configurable: true, writable: true })
  }
  return others ?? NO_MEMBERS
}

export const OpenAiUsage = z
  .object({
    prompt_tokens: z.int(),
    completion_tokens: z.int(),
    total_tokens: z.int(),
    prompt_tokens_details: z.object({ cached_tokens: z.int(), audio_tokens: z.int().optional() }),
    completion_tokens_details: z.object({ reasoning_tokens: z.int(), audio_tokens: z.int().optional() }),
  })
  .meta({ id: 'OpenAiUsage' })
export type OpenAiUsage = z.infer<typeof OpenAiUsage>

/** Pages of a web search have the type `url_citation`. */
const Annotation = z.looseObject({ type: z.string() }).meta({
  description: 'A source of the text: {type: "url_citation", url_citation: {url, title, start_index, end_index}}',
})

const Logprobs = z.looseObject({}).nullable().meta({ description: 'As the provider sent them' })
const FinishReason = z.enum([...FINISH_REASONS, 'tool_calls', 'function_call'])
export type OpenAiFinishReason = z.infer<typeof FinishReason>

/** The 200 response of POST /v1/chat/completions without `stream`. */
export const OpenAiChatResponse = z
  .object({
    id: z.string().meta({ example: 'chatcmpl-6745f0c8a1b2c3d4e5f60718' }),
    object: z.literal('chat.completion'),
    created: z.int(),
    model: z.string(),
    choices: z.array(
      z.object({
        index: z.int(),
        message: z.object({
          role: z.literal('assistant'),
          content: z.string().nullable(),
          refusal: z.null(),
          audio: z
            .object({ id: z.string(), data: z.string(), transcript: z.string(), expires_at: z.int().optional() })
            .optional()
            .meta({ description: 'A spoken answer. `data` is base64, and `content` is null' }),
          annotations: z.array(Annotation).optional(),
          tool_calls: z.array(ToolCall).optional(),
          function_call: OldCall.optional(),
          reasoning_content: z.string().optional(),
          reasoning_details: z.array(ReasoningDetail).optional(),
        }),
        logprobs: Logprobs,
        finish_reason: FinishReason,
      }),
    ),
    usage: OpenAiUsage,
    gateway: GatewayExtension,
  })
  .meta({ id: 'OpenAiChatResponse' })
export type OpenAiChatResponse = z.infer<typeof OpenAiChatResponse>

const Delta = z.object({
  role: z.literal('assistant').optional(),
  content: z.string().optional(),
  reasoning_content: z.string().optional(),
  reasoning_details: z.array(ReasoningDetail).optional(),
  annotations: z.array(Annotation).optional(),
  audio: z
    .object({
      id: z.string().optional(),
      data: z.string().optional(),
      transcript: z.string().optional(),
      expires_at: z.int().optional(),
    })
    .optional(),
  tool_calls: z
    .array(
      z.object({
        index: z.int(),
        id: z.string().optional(),
        type: z.enum(['function', 'custom']).optional(),
        function: z.object({ name: z.string().optional(), arguments: z.string() }).optional(),
        custom: z.object({ name: z.string().optional(), input: z.string() }).optional(),
      }),
    )
    .optional(),
  function_call: z.object({ name: z.string().optional(), arguments: z.string() }).optional(),
})
export type OpenAiDelta = z.infer<typeof Delta>

const OpenAiErrorObject = z.object({
  message: z.string(),
  type: z.string().meta({ example: 'invalid_request_error' }),
  code: z.string().meta({ description: 'A stable word, see docs/errors.md', example: 'rate_limit_exceeded' }),
})

/** The body of every error response under /v1 except for /v1/messages, and of the error in a broken stream. */
export const OpenAiError = z
  .looseObject({
    success: z.literal(false),
    error: OpenAiErrorObject,
    retryable: z.boolean().meta({ description: 'Whether the same request may succeed later' }),
    request_id: z.string(),
  })
  .meta({ id: 'OpenAiError' })
export type OpenAiError = z.infer<typeof OpenAiError>

/**
 * One `data:` line of a streamed answer. A successful stream ends with `data: [DONE]`. After an error, the stream ends
 * without this line.
 */
export const OpenAiChunk = z
  .union([
    z.object({
      id: z.string(),
      object: z.literal('chat.completion.chunk'),
      created: z.int(),
      model: z.string(),
      choices: z.array(
        z.object({
          index: z.int(),
          delta: Delta,
          logprobs: Logprobs.optional(),
          finish_reason: FinishReason.nullable(),
        }),
      ),
      usage: OpenAiUsage.nullable().optional().meta({
        description: 'Present only with stream_options.include_usage: null, except in an extra chunk at the end',
      }),
      gateway: GatewayExtension.optional().meta({ description: 'Present only on the first chunk' }),
    }),
    OpenAiError,
  ])
  .meta({ id: 'OpenAiChunk' })

/** The body of POST /v1/embeddings. */
export const EmbeddingsRequest = z
  .object(
    {
      model: SHARED_CHAT_FIELDS.model,
      smltp_policy: SHARED_CHAT_FIELDS.smltp_policy,
      prompt_shield: SHARED_CHAT_FIELDS.prompt_shield,
      user_id: SHARED_CHAT_FIELDS.user_id,
      input: z
        .union([z.string(), z.array(z.string())], { error: 'input must be a text or an array of texts, not of tokens' })
        .transform((input) => (typeof input === 'string' ? [input] : input))
        .refine((texts) => texts.length > 0 && texts.length <= EMBEDDING_INPUTS, {
          error: `input must have 1 to ${EMBEDDING_INPUTS} texts`,
        })
        .refine((texts) => texts.every((one) => one !== ''), { error: 'input must not contain an empty text' }),
      dimensions: optional(whole('dimensions').min(1, { error: 'dimensions must be at least 1' })),
      encoding_format: optional(oneOf('encoding_format', ['float', 'base64'])),
      user: optional(text('user')),
    },
    anObject,
  )
  .meta({ id: 'EmbeddingsRequest' })
export type EmbeddingsRequest = z.infer<typeof EmbeddingsRequest>

export const EmbeddingsResponse = z
  .object({
    object: z.literal('list'),
    data: z.array(
      z.object({
        object: z.literal('embedding'),
        index: z.int(),
        embedding: z
          .union([z.array(z.number()), z.string()])
          .meta({ description: 'Numbers, or their 32-bit little-endian form in base64' }),
      }),
    ),
    model: z.string(),
    usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
  })
  .meta({ id: 'EmbeddingsResponse' })
export type EmbeddingsResponse = z.infer<typeof EmbeddingsResponse>

/** An item of GET /v1/models, and GET /v1/models/{model}. */
export const OpenAiModel = z
  .object({
    id: z.string().meta({ description: 'A value that chat accepts as `model`' }),
    object: z.literal('model'),
    created: z.int().meta({ description: 'The time of the last start of the gateway, Unix seconds' }),
    owned_by: z.string().meta({ description: 'The provider; `gateway` for a name of the configuration' }),
    ...ModelDetails.shape,
  })
  .meta({ id: 'OpenAiModel' })
export type OpenAiModel = z.infer<typeof OpenAiModel>

/** GET /v1/models: never a pattern. */
export const OpenAiModels = z
  .object({ object: z.literal('list'), data: z.array(OpenAiModel) })
  .meta({ id: 'OpenAiModels' })
export type OpenAiModels = z.infer<typeof OpenAiModels>
