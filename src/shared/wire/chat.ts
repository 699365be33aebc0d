import { z } from 'zod'
import {
  ATTEMPT_TIMEOUT_MS,
  CONVERSATION_ID_CHARS,
  FALLBACK_MODELS,
  FIRST_TOKEN_TIMEOUT_MS,
  MAX_TOKENS_LIMIT,
  MESSAGE_CONTENT_BYTES,
  MESSAGES_PER_REQUEST,
  MODEL_ID_CHARS,
  MODELS_PER_CHAIN,
  SOURCES_RETURNED,
  TEMPERATURE_LIMIT,
} from '../spec-limits.ts'
import { BillingFallback } from './billing.ts'
import { CacheUse } from './cache.ts'
import { anObject, closedObject, optional, storableText, unionError } from './common.ts'

export const CHAT_PATH = '/api/external/chat/completions'
/** The path prefix of signed receipts, by bundle id. */
export const RECEIPTS_PATH = '/api/external/receipts'

const clamp = (min: number, max: number) => (value: number) => Math.min(max, Math.max(min, value))

type Bounds = { min: number; max: number }

const milliseconds = (name: string, bounds: Bounds) =>
  z
    .number({ error: `${name} must be a number of milliseconds` })
    .meta({ description: `Milliseconds, clamped to ${bounds.min}-${bounds.max}` })

const clampedMilliseconds = (name: string, bounds: Bounds) =>
  optional(milliseconds(name, bounds).transform(clamp(bounds.min, bounds.max)))

/** `<provider>/<model>` */
export const ModelId = storableText('a model')
  .regex(/^[^/\s]+\/\S+$/, { error: 'a model must be written as "<provider>/<model>"' })
  .max(MODEL_ID_CHARS, { error: `a model may have at most ${MODEL_ID_CHARS} characters` })
  .meta({ example: 'local/extract' })

/** `<provider>/<model>`, a name of the gateway's configuration, or the name of a model. */
export const RequestedModel = storableText('a model')
  .regex(/^[^/\s]+(\/\S+)?$/, {
    error: 'a model must be written as "<provider>/<model>", or as a name without slashes',
  })
  .max(MODEL_ID_CHARS, { error: `a model may have at most ${MODEL_ID_CHARS} characters` })
  .meta({
    description:
      '`<provider>/<model>`, or a name that GET /v1/models lists. The compatible interfaces also accept the name of a model if exactly one provider has it',
    example: 'local/extract',
  })

export const FAILOVER_TRIGGERS = ['connection_error', 'server_error', 'rate_limit', 'timeout'] as const
export type FailoverTrigger = (typeof FAILOVER_TRIGGERS)[number]

/** Timeouts of an attempt, as keys store them. Values that are out of range are clamped. */
export const attemptTimeouts = {
  timeout_ms: clampedMilliseconds('timeout_ms', ATTEMPT_TIMEOUT_MS),
  first_token_timeout_ms: clampedMilliseconds('first_token_timeout_ms', FIRST_TOKEN_TIMEOUT_MS),
}

/** The same timeouts in a request. `gateway/governed/chain.ts` clamps them and reports it. */
const requestedTimeouts = {
  timeout_ms: optional(milliseconds('timeout_ms', ATTEMPT_TIMEOUT_MS)),
  first_token_timeout_ms: optional(milliseconds('first_token_timeout_ms', FIRST_TOKEN_TIMEOUT_MS)),
}

const FailoverTriggers = z
  .array(
    z.enum(FAILOVER_TRIGGERS, {
      error: `redundancy.on must contain only the triggers ${FAILOVER_TRIGGERS.join(', ')}`,
    }),
    {
      error: 'redundancy.on must be an array of triggers',
    },
  )
  .meta({
    description:
      'The failures after which the next model is tried. A `context_length` always counts: the next model may accept more.',
  })

const IS_CHAIN_ENTRY =
  'each entry must be a model, such as "<provider>/<model>", or {model, timeout_ms, first_token_timeout_ms}'

const ChainEntry = z
  .union([RequestedModel, closedObject({ model: RequestedModel, ...requestedTimeouts }, IS_CHAIN_ENTRY)], {
    error: (issue) => unionError(issue, IS_CHAIN_ENTRY),
  })
  .transform((entry) => (typeof entry === 'string' ? { model: entry } : entry))

const distinct = (count: number, name: string) => ({
  check: (entries: { model: string }[]) => new Set(entries.map((entry) => entry.model)).size <= count,
  error: `${name} may name at most ${count} distinct models`,
})
const chainSize = distinct(MODELS_PER_CHAIN, 'models')
const fallbackSize = distinct(FALLBACK_MODELS, 'fallback_models')

/**
 * The point after which a streamed answer no longer fails over to another model: the first token of the answer, or its
 * end.
 */
const COMMIT_POINTS = ['first_token', 'complete'] as const
export type CommitPoint = (typeof COMMIT_POINTS)[number]

const Redundancy = closedObject(
  {
    ...requestedTimeouts,
    on: optional(FailoverTriggers),
    commit: optional(
      z.enum(COMMIT_POINTS, { error: `redundancy.commit must be one of ${COMMIT_POINTS.join(', ')}` }).meta({
        description:
          '`complete` buffers a streamed answer, up to 1 MiB, until it is complete. If it breaks before, the next model answers',
      }),
    ),
  },
  'redundancy must be an object {timeout_ms, first_token_timeout_ms, on, commit}',
)

const ChatMessage = z.object(
  {
    role: z.enum(['system', 'user', 'assistant'], { error: 'role must be system, user or assistant' }),
    content: z.string({ error: 'content must be a string' }),
  },
  { error: 'each message must be an object {role, content}' },
)

/** Text for a model: any string. */
const modelText = (name: string) => z.string({ error: `${name} must be a string` })
const flag = (name: string) => z.boolean({ error: `${name} must be true or false` })

/**
 * The body of POST /chat/completions. `chat/input.ts` checks the rules that involve several fields, and reports unknown
 * members.
 */
export const ChatRequest = z
  .looseObject(
    {
      prompt: optional(
        modelText('prompt')
          .refine((value) => value.trim() !== '', { error: 'prompt must not be empty' })
          .refine((value) => Buffer.byteLength(value) <= MESSAGE_CONTENT_BYTES, {
            error: `prompt must be at most ${MESSAGE_CONTENT_BYTES} bytes`,
          })
          .meta({ description: 'Single-turn user message; send this or `messages`' }),
      ),
      messages: optional(
        z
          .array(ChatMessage, { error: 'messages must be an array of {role, content}' })
          .min(1, { error: 'messages must not be empty' })
          .max(MESSAGES_PER_REQUEST, { error: `messages may have at most ${MESSAGES_PER_REQUEST} entries` })
          .refine((list) => !list.some((message, at) => at > 0 && message.role === 'system'), {
            error: 'a system message may only be the first entry, and only once',
          }),
      ),
      system_message: optional(modelText('system_message')),
      model: optional(RequestedModel),
      models: optional(
        z
          .array(ChainEntry, { error: 'models must be an array' })
          .min(1, { error: 'models must not be empty' })
          .refine(chainSize.check, { error: chainSize.error }),
      ),
      fallback_models: optional(
        z
          .array(ChainEntry, { error: 'fallback_models must be an array' })
          .refine(fallbackSize.check, { error: fallbackSize.error }),
      ),
      redundancy: optional(Redundancy),
      index: optional(
        storableText('index').meta({ description: 'Knowledge base, or `Zero-Knowledge`', example: 'handbook' }),
      ),
      use_rag: optional(flag('use_rag')),
      smltp_policy: optional(storableText('smltp_policy')),
      prompt_shield: optional(
        closedObject(
          {
            enabled: optional(flag('prompt_shield.enabled')),
            policy: optional(storableText('prompt_shield.policy')),
          },
          'prompt_shield must be an object {enabled, policy}',
        ),
      ),
      temperature: optional(
        z.number({ error: 'temperature must be a number' }).meta({ description: `Clamped to 0-${TEMPERATURE_LIMIT}` }),
      ),
      max_tokens: optional(
        z
          .number({ error: 'max_tokens must be a whole number' })
          .refine(Number.isInteger, { error: 'max_tokens must be a whole number' })
          .min(1, { error: 'max_tokens must be at least 1' })
          .meta({ description: `A whole number, capped at ${MAX_TOKENS_LIMIT}` }),
      ),
      stream: optional(flag('stream')),
      conversation_id: optional(
        storableText('conversation_id')
          .min(1, { error: 'conversation_id must not be empty' })
          .max(CONVERSATION_ID_CHARS, {
            error: `conversation_id may have at most ${CONVERSATION_ID_CHARS} characters`,
          }),
      ),
      user_id: optional(
        z
          .string({ error: 'user_id must be 24 hexadecimal characters' })
          .regex(/^[0-9a-f]{24}$/i, { error: 'user_id must be 24 hexadecimal characters' }),
      ),
    },
    anObject,
  )
  .meta({ id: 'ChatRequest' })
export type ChatRequest = z.infer<typeof ChatRequest>

/** The fields that all compatibility surfaces share. Each field has the same meaning and bounds on every surface. */
export const SHARED_CHAT_FIELDS = {
  ...ChatRequest.pick({
    model: true,
    models: true,
    fallback_models: true,
    redundancy: true,
    smltp_policy: true,
    prompt_shield: true,
    user_id: true,
    stream: true,
  }).shape,
  temperature: optional(
    z
      .number({ error: 'temperature must be a number' })
      .min(0, { error: 'temperature must not be negative' })
      .max(TEMPERATURE_LIMIT, { error: `temperature must be at most ${TEMPERATURE_LIMIT}` }),
  ),
}

export const Usage = z
  .object({
    prompt_tokens: z.int(),
    completion_tokens: z.int(),
    total_tokens: z.int(),
    input_tokens: z.int(),
    output_tokens: z.int(),
  })
  .meta({ id: 'Usage' })

/** Why an attempt failed, or why its model was skipped. docs/configuration.md describes each reason. */
export const ATTEMPT_REASONS = [
  ...FAILOVER_TRIGGERS,
  'auth_failed',
  'model_not_found',
  'quota_exhausted',
  'context_length',
  'content_filter',
  'bad_request',
  'circuit_open',
  'overloaded',
  'aborted',
  // Failures of the gateway itself.
  'entitlement_refused',
  'internal_error',
] as const
export type AttemptReason = (typeof ATTEMPT_REASONS)[number]

export const FailoverAttempt = z.object({
  model: z.string(),
  status: z.enum(['failed', 'served']),
  reason: z
    .enum(ATTEMPT_REASONS)
    .optional()
    .meta({ description: 'Why the attempt failed, or why the model was skipped', example: 'timeout' }),
  latency_ms: z.int(),
})
export type FailoverAttempt = z.infer<typeof FailoverAttempt>

/**
 * Content that a guard withheld from the model. The prompt shield withholds tool results, documents, definitions of
 * tools and passages, while blocking rules withhold only passages.
 */
const Withheld = z.object({
  tool_results: z.int(),
  passages: z.int(),
  documents: z.int().optional().meta({ description: 'Present only if documents in messages were withheld' }),
  tools: z.int().optional().meta({ description: 'Present only if definitions of tools were withheld' }),
})
export type Withheld = z.infer<typeof Withheld>

/** The prompt shield policy that the gateway applied to a request. */
export const AppliedShieldPolicy = z
  .object({
    id: z.string(),
    name: z.string(),
    mode: z.string().meta({ example: 'blocking' }),
    sensitivity: z.string().meta({ example: 'balanced' }),
  })
  .meta({ id: 'AppliedShieldPolicy' })

/** A field of the request whose value the gateway changed before the model call. */
export const Change = z
  .object({
    field: z.string().meta({ example: 'max_tokens' }),
    asked: z.union([z.number(), z.string()]).nullable().meta({ description: 'null if the request set no value' }),
    used: z.union([z.number(), z.string()]).nullable().meta({ description: 'null if the field was omitted' }),
    why: z.enum(['operator', 'key', 'budget', 'model', 'provider', 'gateway', 'policy']).meta({
      description:
        'For a limit, the smallest one: of the operator, of the key, of the remaining budget, or of the model if a budget or the provider requires one. `provider`: the interface of the provider has another form of the field. `gateway`: the endpoint has fixed bounds for the field. `policy`: a rule changed the text of a file, so the text is sent instead of the file',
    }),
  })
  .meta({ id: 'Change' })
export type Change = z.infer<typeof Change>

/** A field of the request that had no effect. */
export const Dropped = z
  .object({
    field: z.string().meta({ example: 'cache_control' }),
    why: z.enum(['provider', 'operator', 'gateway']).meta({
      description:
        '`provider`: the interface of the provider has no such field. `operator`: the operator forbids it. `gateway`: the gateway does not support it',
    }),
  })
  .meta({ id: 'Dropped' })
export type Dropped = z.infer<typeof Dropped>

export const ChatMetadata = z
  .object({
    conversation_id: z.string(),
    index_used: z.string(),
    smltp_policy_used: z.string(),
    smltp_policy_source: z.string().meta({ example: 'request' }),
    smltp_policy_hash: z.string().nullable(),
    smltp_policy_baseline: z.string().optional().meta({
      description:
        'Present only if a baseline was joined with the policy. `smltp_policy_hash` belongs to the joined document',
    }),
    prompt_shield_policy: AppliedShieldPolicy.nullable(),
    withheld: Withheld.optional().meta({
      description: 'Present only if tool results or retrieved passages were withheld: how many of each',
    }),
    served_model: z.string(),
    requested_model: z.string(),
    failover: z
      .object({ occurred: z.boolean(), attempts: z.array(FailoverAttempt) })
      .optional()
      .meta({ description: 'Present only if the chain has several models' }),
    billing_fallback: BillingFallback.optional().meta({
      description: 'Present only if the points were used up and the request was billed in dollars',
    }),
    smltp: z.object({ bundle_id: z.string(), receipt_url: z.string().optional() }).meta({
      description: "The id of this request's evidence, and the URL of its signed receipt if receipts are served",
    }),
    rag_enabled: z.boolean(),
    documents_retrieved: z.int(),
    sources: z.array(z.object({ source: z.string(), score: z.number() })).max(SOURCES_RETURNED),
    skipped_models: z.array(z.string()).optional().meta({
      description: 'The models of knowledge search that the policy does not allow. Present only if there are any',
    }),
    changed: z.array(Change).optional().meta({ description: 'Present only if something was changed' }),
    dropped: z.array(Dropped).optional().meta({ description: 'Present only if something was dropped' }),
    cache: CacheUse.optional(),
  })
  .meta({ id: 'ChatMetadata' })
export type ChatMetadata = z.infer<typeof ChatMetadata>

/**
 * The `gateway` member of OpenAI-style and Anthropic-style responses. It contains data that the OpenAI and Anthropic
 * APIs do not define.
 */
export const GatewayExtension = ChatMetadata.pick({
  served_model: true,
  requested_model: true,
  failover: true,
  billing_fallback: true,
  smltp_policy_used: true,
  smltp_policy_source: true,
  smltp_policy_hash: true,
  smltp_policy_baseline: true,
  prompt_shield_policy: true,
  withheld: true,
  changed: true,
  dropped: true,
  cache: true,
})
  .extend({ smltp_bundle_id: z.string() })
  .meta({ id: 'GatewayExtension' })
export type GatewayExtension = z.infer<typeof GatewayExtension>

export const FINISH_REASONS = ['stop', 'length', 'content_filter'] as const

/** The 200 response of POST /chat/completions without `stream`. */
export const ChatResponse = z
  .object({
    success: z.literal(true),
    id: z.string(),
    object: z.literal('chat.completion'),
    created: z.int(),
    model: z.string(),
    choices: z.array(
      z.object({
        index: z.int(),
        message: z.object({ role: z.literal('assistant'), content: z.string() }),
        finish_reason: z.enum(FINISH_REASONS),
      }),
    ),
    usage: Usage,
    metadata: ChatMetadata,
  })
  .meta({ id: 'ChatResponse' })
export type ChatResponse = z.infer<typeof ChatResponse>

/**
 * One `data:` line of a streamed answer. A successful stream ends with `data: [DONE]`. After an `error` frame, the
 * stream ends without this line.
 */
export const ChatFrame = z
  .discriminatedUnion('type', [
    z.object({
      type: z.literal('metadata'),
      data: ChatResponse.pick({ success: true, id: true, object: true, created: true, model: true, metadata: true }),
    }),
    z.object({
      type: z.literal('chunk'),
      data: z.object({
        id: z.string(),
        object: z.literal('chat.completion.chunk'),
        model: z.string(),
        choices: z.array(
          z.object({
            index: z.int(),
            delta: z.object({ role: z.literal('assistant').optional(), content: z.string().optional() }),
            finish_reason: z.enum(FINISH_REASONS).nullable(),
          }),
        ),
      }),
    }),
    z.object({
      type: z.literal('usage'),
      data: z.object({ usage: Usage.pick({ prompt_tokens: true, completion_tokens: true, total_tokens: true }) }),
    }),
    z.object({
      type: z.literal('error'),
      data: z.object({
        error: z.string(),
        message: z.string(),
        reason: z.string(),
        request_id: z.string(),
        verdict: z
          .literal('BLOCK')
          .optional()
          .meta({ description: 'Present, like the next two, only if a guard blocked the answer' }),
        attack_category: z.string().nullable().optional(),
        trace_id: z.string().optional(),
      }),
    }),
  ])
  .meta({ id: 'ChatFrame' })
export type ChatFrame = z.infer<typeof ChatFrame>
