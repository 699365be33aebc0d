// Gemini's API: generateContent, streamGenerateContent, countTokens, embedContent, batchEmbedContents and models.
import { z } from 'zod'
import { EMBEDDING_INPUTS, PAGE_LIMIT } from '../spec-limits.ts'
import { GatewayExtension, SHARED_CHAT_FIELDS } from './chat.ts'
import { optional, tokenLimit } from './common.ts'
import { freeJson, GeminiContent, GeminiTool, protoObject, TextContent, ToolConfig } from './gemini-content.ts'
import { longList } from './long-list.ts'

export const GEMINI_MODELS_PATH = '/api/external/v1beta/models'
/** The name of a model contains slashes. Some clients escape them. */
export const GEMINI_MODEL_PATH = `${GEMINI_MODELS_PATH}/{model}`
export const GENERATE_CONTENT_PATH = `${GEMINI_MODEL_PATH}:generateContent`
export const STREAM_GENERATE_CONTENT_PATH = `${GEMINI_MODEL_PATH}:streamGenerateContent`
export const GEMINI_COUNT_TOKENS_PATH = `${GEMINI_MODEL_PATH}:countTokens`
export const EMBED_CONTENT_PATH = `${GEMINI_MODEL_PATH}:embedContent`
export const BATCH_EMBED_CONTENTS_PATH = `${GEMINI_MODEL_PATH}:batchEmbedContents`

const number = (name: string) => optional(z.number({ error: `generationConfig.${name} must be a number` }))
const whole = (name: string) => optional(z.int({ error: `generationConfig.${name} must be a whole number` }))
const schema = (name: string) => optional(freeJson(`generationConfig.${name} must be a schema`))

const ThinkingConfig = protoObject(
  {
    includeThoughts: optional(z.boolean({ error: 'thinkingConfig.includeThoughts must be true or false' })),
    thinkingBudget: optional(z.int({ error: 'thinkingConfig.thinkingBudget must be a whole number' }).min(-1)),
    thinkingLevel: optional(
      z.string().regex(/^[A-Za-z_]{1,32}$/, { error: 'thinkingConfig.thinkingLevel must be a level, such as "LOW"' }),
    ),
  },
  'thinkingConfig must be an object {includeThoughts, thinkingBudget, thinkingLevel}',
)

const GenerationConfig = protoObject(
  {
    candidateCount: optional(
      z.literal(1, { error: 'generationConfig.candidateCount must be 1: each request gets one answer' }),
    ),
    stopSequences: optional(
      z.array(z.string(), { error: 'generationConfig.stopSequences must be an array of strings' }),
    ),
    maxOutputTokens: optional(tokenLimit('generationConfig.maxOutputTokens')),
    temperature: number('temperature'),
    topP: number('topP'),
    topK: number('topK'),
    seed: whole('seed'),
    presencePenalty: number('presencePenalty'),
    frequencyPenalty: number('frequencyPenalty'),
    responseLogprobs: optional(z.boolean({ error: 'generationConfig.responseLogprobs must be true or false' })),
    logprobs: whole('logprobs'),
    responseMimeType: optional(
      z.enum(['text/plain', 'application/json', 'text/x.enum'], {
        error: 'generationConfig.responseMimeType must be text/plain, application/json or text/x.enum',
      }),
    ),
    responseSchema: schema('responseSchema'),
    responseJsonSchema: schema('responseJsonSchema'),
    responseModalities: optional(
      z.array(z.string().regex(/^text$/i, { error: 'only TEXT is supported: answers are text' }), {
        error: 'generationConfig.responseModalities must be ["TEXT"]',
      }),
    ),
    thinkingConfig: optional(ThinkingConfig),
  },
  'generationConfig must be an object',
).meta({ id: 'GeminiGenerationConfig' })
export type GenerationConfig = Partial<z.infer<typeof GenerationConfig>>
export type ThinkingConfig = Partial<z.infer<typeof ThinkingConfig>>

const { fallback_models, redundancy, smltp_policy, prompt_shield, user_id } = SHARED_CHAT_FIELDS
/** The gateway's own members. */
const EXTENSIONS = { fallback_models, redundancy, smltp_policy, prompt_shield, user_id }

const contents = longList(
  z.array(GeminiContent, { error: 'contents must be an array' }).min(1, { error: 'contents must not be empty' }),
)
const tools = optional(longList(z.array(GeminiTool, { error: 'tools must be an array' })))
const cachedContent = optional(
  z.never({ error: 'cachedContent is not supported: guards cannot inspect it. Send its contents in the request' }),
)

/** The members of Gemini's API that the gateway interprets. */
const CONTENT_FIELDS = {
  model: optional(z.string()).meta({ description: 'Ignored: the path names the model' }),
  contents,
  systemInstruction: optional(TextContent),
  tools,
  toolConfig: optional(ToolConfig),
  generationConfig: optional(GenerationConfig),
  safetySettings: optional(z.array(z.looseObject({}), { error: 'safetySettings must be an array' })),
  cachedContent,
}
export const GENERATE_CONTENT_FIELDS = { ...EXTENSIONS, ...CONTENT_FIELDS }

/**
 * The body of `generateContent` and `streamGenerateContent`. Other members are sent unchanged to a provider with this
 * API.
 */
export const GenerateContentRequest = protoObject(GENERATE_CONTENT_FIELDS, 'the body must be a JSON object').meta({
  id: 'GenerateContentRequest',
})
type Generate = z.infer<typeof GenerateContentRequest>
export type GenerateContentRequest = Partial<Generate> & Pick<Generate, 'contents'>

/** The query of `streamGenerateContent`. */
export const StreamQuery = z.object({
  alt: z
    .enum(['sse', 'json'], { error: 'alt must be sse or json' })
    .optional()
    .meta({ description: '`sse` for server-sent events. Otherwise the answer is a JSON array that arrives in pieces' }),
})

const UsageMetadata = z.object({
  promptTokenCount: z.int(),
  candidatesTokenCount: z.int().meta({ description: 'Without the tokens of thoughts' }),
  totalTokenCount: z.int(),
  thoughtsTokenCount: z.int().optional(),
  cachedContentTokenCount: z.int().optional(),
})
export type UsageMetadata = z.infer<typeof UsageMetadata>

export const GEMINI_FILTERS = [
  'SAFETY',
  'RECITATION',
  'LANGUAGE',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
  'MODEL_ARMOR',
  'IMAGE_SAFETY',
  'IMAGE_PROHIBITED_CONTENT',
  'IMAGE_RECITATION',
] as const
const FinishReason = z.enum(['STOP', 'MAX_TOKENS', ...GEMINI_FILTERS, 'OTHER'])
export type GeminiFinishReason = z.infer<typeof FinishReason>

const AnswerPart = z.looseObject({
  text: z.string().optional(),
  thought: z.boolean().optional(),
  thoughtSignature: z.string().optional(),
  functionCall: z.object({ id: z.string().optional(), name: z.string(), args: z.looseObject({}) }).optional(),
})
export type AnswerPart = z.infer<typeof AnswerPart>

const Candidate = z.looseObject({
  content: z.object({ role: z.literal('model'), parts: z.array(AnswerPart) }).optional(),
  finishReason: FinishReason.optional().meta({ description: 'Present only at the end of an answer' }),
  finishMessage: z.string().optional(),
  index: z.literal(0),
})
export type GeminiCandidate = z.infer<typeof Candidate>

const GoogleErrorObject = z.object({
  code: z.int().meta({ description: 'The HTTP status' }),
  message: z.string(),
  status: z.string().meta({ example: 'INVALID_ARGUMENT' }),
  details: z.array(z.looseObject({ '@type': z.string() })),
})

/** The body of every error response under /v1beta. */
export const GoogleError = z
  .looseObject({ error: GoogleErrorObject, success: z.literal(false), retryable: z.boolean(), request_id: z.string() })
  .meta({ id: 'GoogleError' })
export type GoogleError = z.infer<typeof GoogleError>

/** The answer, and each piece of a streamed answer. The last piece has `finishReason` and `usageMetadata`. */
export const GenerateContentResponse = z
  .object({
    candidates: z.array(Candidate),
    usageMetadata: UsageMetadata.optional(),
    modelVersion: z.string(),
    responseId: z.string(),
    gateway: GatewayExtension.optional().meta({
      description: 'Present on the answer, and on the first piece of a stream',
    }),
    error: GoogleErrorObject.optional().meta({
      description: 'Present only at the end of a stream that broke off. Its `finishReason` is then OTHER',
    }),
  })
  .meta({ id: 'GenerateContentResponse' })
export type GenerateContentResponse = z.infer<typeof GenerateContentResponse>

/** The body of `countTokens`: the contents, or a whole request. */
export const GeminiCountTokensRequest = protoObject(
  {
    smltp_policy,
    prompt_shield,
    contents: optional(contents),
    generateContentRequest: optional(protoObject(CONTENT_FIELDS, 'generateContentRequest must be an object')),
    systemInstruction: CONTENT_FIELDS.systemInstruction,
    tools,
  },
  'the body must be a JSON object',
)
  .refine(({ contents, generateContentRequest }) => contents !== undefined || generateContentRequest !== undefined, {
    error: 'Send `contents` or `generateContentRequest`.',
    path: ['contents'],
  })
  .meta({ id: 'GeminiCountTokensRequest' })
export type GeminiCountTokensRequest = z.infer<typeof GeminiCountTokensRequest>

export const GeminiCountTokensResponse = z
  .object({
    totalTokens: z.int(),
    gateway: GatewayExtension.extend({
      estimated: z
        .boolean()
        .meta({ description: 'True if the gateway estimated the count, because the API of the provider cannot count' }),
    }),
  })
  .meta({ id: 'GeminiCountTokensResponse' })
export type GeminiCountTokensResponse = z.infer<typeof GeminiCountTokensResponse>

const EMBED_FIELDS = {
  content: TextContent,
  taskType: optional(
    z.string().regex(/^[A-Z_]{1,64}$/, { error: 'taskType must be a name, such as "RETRIEVAL_QUERY"' }),
  ),
  title: optional(z.string({ error: 'title must be a string' })),
  outputDimensionality: optional(
    z
      .int({ error: 'outputDimensionality must be a whole number' })
      .min(1, { error: 'outputDimensionality must be at least 1' }),
  ),
}

export const EmbedContentRequest = protoObject(
  { smltp_policy, prompt_shield, user_id, ...EMBED_FIELDS },
  'the body must be a JSON object',
).meta({ id: 'EmbedContentRequest' })
export type EmbedContentRequest = z.infer<typeof EmbedContentRequest>

export const BatchEmbedContentsRequest = protoObject(
  {
    smltp_policy,
    prompt_shield,
    user_id,
    requests: z
      .array(protoObject(EMBED_FIELDS, 'each of requests must be an object {content}'), {
        error: 'requests must be an array',
      })
      .min(1, { error: 'requests must not be empty' })
      .max(EMBEDDING_INPUTS, { error: `requests may have at most ${EMBEDDING_INPUTS} entries` }),
  },
  'the body must be a JSON object',
).meta({ id: 'BatchEmbedContentsRequest' })
export type BatchEmbedContentsRequest = z.infer<typeof BatchEmbedContentsRequest>

const Embedding = z.object({ values: z.array(z.number()) })
export const EmbedContentResponse = z
  .object({ embedding: Embedding, gateway: GatewayExtension })
  .meta({ id: 'EmbedContentResponse' })
export type EmbedContentResponse = z.infer<typeof EmbedContentResponse>
export const BatchEmbedContentsResponse = z
  .object({ embeddings: z.array(Embedding), gateway: GatewayExtension })
  .meta({ id: 'BatchEmbedContentsResponse' })
export type BatchEmbedContentsResponse = z.infer<typeof BatchEmbedContentsResponse>

export const GeminiModel = z
  .object({
    name: z.string().meta({ example: 'models/google/gemini-2.5-flash' }),
    version: z.string(),
    displayName: z.string(),
    supportedGenerationMethods: z.array(z.string()),
  })
  .meta({ id: 'GeminiModel' })
export type GeminiModel = z.infer<typeof GeminiModel>

export const GeminiModels = z
  .object({ models: z.array(GeminiModel), nextPageToken: z.string().optional() })
  .meta({ id: 'GeminiModels' })
export type GeminiModels = z.infer<typeof GeminiModels>

/** The query of the list of models. */
export const ModelsQuery = z.object({
  pageSize: z.coerce
    .number({ error: 'pageSize must be a whole number' })
    .int({ error: 'pageSize must be a whole number' })
    .min(0, { error: 'pageSize must not be negative' })
    .optional()
    .meta({ description: `Default ${PAGE_LIMIT.max}` }),
  pageToken: z
    .string()
    .regex(/^\d{1,9}$/, { error: 'pageToken must be the nextPageToken of the page before' })
    .optional(),
})
