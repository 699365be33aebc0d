import { invalidField } from '../../../../shared/errors.ts'
import type { GenerateContentRequest, GenerationConfig, ThinkingConfig } from '../../../../shared/wire/gemini.ts'
import { GENERATE_CONTENT_FIELDS } from '../../../../shared/wire/gemini.ts'
import { ZERO_KNOWLEDGE } from '../../../../shared/wire/indexes.ts'
import type { GenerationOptions, NativeOptions, ResponseFormat, System } from '../../../models/conversation.ts'
import { ORIGIN } from '../../../models/part-signature.ts'
import { askedOptions, type ChatInput } from '../../chat/input.ts'
import { toMessages } from './contents.ts'
import { createMarks, type Marks } from './native.ts'
import { toJsonSchema } from './schema.ts'
import { toToolChoice, toTools } from './tools.ts'

/**
 * Converts a body of `generateContent` to the pipeline's input. Sets neither a default temperature nor a default limit.
 * @throws VALIDATION_ERROR
 */
export function toChatInput(request: GenerateContentRequest, model: string, stream: boolean): ChatInput {
  const config: GenerationConfig = request.generationConfig ?? {}
  const marks = createMarks()
  return {
    conversation: { system: toSystem(request), messages: toMessages(request.contents, marks) },
    chain: { model, fallback_models: request.fallback_models, redundancy: request.redundancy },
    index: ZERO_KNOWLEDGE,
    useRag: false,
    policy: request.smltp_policy,
    shield: request.prompt_shield,
    userId: request.user_id,
    conversationId: undefined,
    temperature: config.temperature,
    maxTokens: config.maxOutputTokens,
    fields: { maxTokens: 'generationConfig.maxOutputTokens', thinking: THINKING_FIELD },
    stream,
    options: toOptions(request, config, marks),
    dropped: [...marks.dropped].map((field) => ({ field, why: 'gateway' as const })),
    // After the options, because tools add marks.
    uses: marks.uses,
  }
}

const THINKING_FIELD = 'generationConfig.thinkingConfig'

function toSystem({ systemInstruction }: GenerateContentRequest): System {
  const texts = systemInstruction?.parts.map(({ text }) => ({ type: 'text' as const, text })) ?? []
  const [only] = texts
  return texts.length > 1 ? texts : (only?.text ?? '')
}

function toOptions(
  request: GenerateContentRequest,
  config: GenerationConfig,
  marks: Marks,
): GenerationOptions | undefined {
  const { choice, fields } = toToolChoice(request.toolConfig, marks)
  const tools = request.tools && toTools(request.tools, marks)
  return askedOptions({
    tools: tools && tools.length > 0 ? tools : undefined,
    toolChoice: choice,
    responseFormat: toResponseFormat(config),
    stop: config.stopSequences,
    topP: config.topP,
    topK: config.topK,
    frequencyPenalty: config.frequencyPenalty,
    presencePenalty: config.presencePenalty,
    seed: config.seed,
    logprobs: config.responseLogprobs,
    topLogprobs: config.logprobs,
    ...toReasoning(config.thinkingConfig),
    native: toNative(request, config, fields, marks),
  })
}

function toResponseFormat({
  responseMimeType: type,
  responseSchema: schema,
  responseJsonSchema: jsonSchema,
}: GenerationConfig): ResponseFormat | undefined {
  if (type === 'application/json') {
    if (!schema && !jsonSchema) return { type: 'json_object' }
    return { type: 'json_schema', name: 'answer', schema: jsonSchema ?? toJsonSchema(schema ?? {}) }
  }
  if ((schema || jsonSchema) && type !== 'text/x.enum') {
    throw invalidField(
      'generationConfig.responseSchema',
      'A schema needs generationConfig.responseMimeType "application/json" or "text/x.enum".',
    )
  }
  return undefined
}

/** The largest thinking budgets of the efforts `low` and `medium`, as in Google's OpenAI-compatible API. */
const BUDGETS = { low: 1024, medium: 8192 } as const

/** Converts the thinking options for providers of another kind. A budget of -1 lets the model decide. */
function toReasoning({
  thinkingBudget: budget,
  thinkingLevel: level,
}: ThinkingConfig = {}): Pick<GenerationOptions, 'reasoningEffort' | 'noReasoning'> {
  if (level !== undefined && level !== 'THINKING_LEVEL_UNSPECIFIED') return { reasoningEffort: level.toLowerCase() }
  if (budget === 0) return { noReasoning: true }
  if (budget === undefined || budget < 0) return {}
  if (budget <= BUDGETS.low) return { reasoningEffort: 'low' }
  return { reasoningEffort: budget <= BUDGETS.medium ? 'medium' : 'high' }
}

/** The members of `generationConfig` that the gateway's conversation has a place for. */
const SHARED_CONFIG = new Set([
  'candidateCount',
  'stopSequences',
  'maxOutputTokens',
  'temperature',
  'topP',
  'topK',
  'seed',
  'presencePenalty',
  'frequencyPenalty',
  'responseLogprobs',
  'logprobs',
  'responseMimeType',
  'responseSchema',
  'responseJsonSchema',
  'responseModalities',
])

/** Returns the options that only a provider with this API understands. Undefined if there are none. */
function toNative(
  { safetySettings, ...request }: GenerateContentRequest,
  config: GenerationConfig,
  toolFields: Record<string, unknown>,
  marks: Marks,
): NativeOptions | undefined {
  const isEnum = config.responseMimeType === 'text/x.enum'
  const isShared = (name: string) => SHARED_CONFIG.has(name) && !(isEnum && name.startsWith('response'))
  const entries = [
    ...Object.entries({ safetySettings, ...toolFields }),
    ...marks.fieldsOf(request).filter(([name]) => !Object.hasOwn(GENERATE_CONTENT_FIELDS, name)),
    ...marks
      .fieldsOf(config, 'generationConfig.')
      .flatMap(([name, value]) => (isShared(name) ? [] : [[`generationConfig.${name}`, value]])),
  ] as [string, unknown][]
  const fields = Object.fromEntries(entries.filter(([, value]) => value !== undefined && value !== null))
  if (Object.keys(fields).length + marks.names.size === 0) return undefined
  const effort = toEffort(config.thinkingConfig)
  return { origin: ORIGIN, fields, headers: {}, marks: [...marks.names], ...(effort && { effort }) }
}

/** What the request asks of thinking, as the answer reports it if the provider has another form of it. */
function toEffort({ thinkingBudget, thinkingLevel }: ThinkingConfig = {}): NativeOptions['effort'] {
  const asked = thinkingLevel ?? thinkingBudget
  return asked === undefined ? undefined : { field: THINKING_FIELD, asked }
}
