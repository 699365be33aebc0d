import { UNKNOWN_OUTPUT_TOKENS } from '../../shared/spec-limits.ts'

/**
 * The maximum number of output tokens of each well-known model. The figures come from general knowledge on 2026-11-22,
 * not from the providers' pages. Verify them before a release. Each name also applies to its editions, unless a longer
 * name matches: `gpt-4o` applies to `gpt-4o-2024-08-06`. If the editions have different limits, the lowest limit is
 * listed.
 */
const OUTPUT_TOKENS: Readonly<Record<string, number>> = {
  'gpt-3.5-turbo': 4_096,
  'gpt-4': 4_096,
  'gpt-4-turbo': 4_096,
  'gpt-4-turbo-preview': 4_096,
  'gpt-4o': 16_384,
  'gpt-4o-2024-05-13': 4_096,
  'gpt-4o-mini': 16_384,
  'chatgpt-4o': 16_384,
  'gpt-4.1': 32_768,
  'gpt-4.1-mini': 32_768,
  'gpt-4.1-nano': 32_768,
  'gpt-5': 128_000,
  'gpt-5-chat': 16_384,
  'gpt-5.1-chat': 16_384,
  'gpt-5.2-chat': 16_384,
  o1: 100_000,
  'o1-mini': 65_536,
  o3: 100_000,
  'o3-mini': 100_000,
  'o4-mini': 100_000,
  claude: 32_000,
  'claude-3': 4_096,
  'claude-3-5-haiku': 8_192,
  'claude-3-5-sonnet': 8_192,
  'claude-3-7-sonnet': 64_000,
  'claude-sonnet-4': 64_000,
  'claude-haiku-4-5': 64_000,
  'claude-opus-4': 32_000,
  'claude-opus-4-5': 64_000,
  'gemini-2.0': 8_192,
  'gemini-2.5': 65_535,
  'gemini-3': 65_535,
  'gemini-3-pro-preview': 65_535,
  'deepseek-chat': 8_192,
  'deepseek-reasoner': 32_768,
}

/**
 * Context windows, in tokens. Lists only models whose provider rejects a request if the prompt and the output limit
 * together exceed the context window. These figures also come from general knowledge.
 */
const CONTEXT_TOKENS: Readonly<Record<string, number>> = {
  'gpt-3.5-turbo': 16_385,
  'gpt-4': 8_192,
  'gpt-4-turbo': 128_000,
  'gpt-4o': 128_000,
  'gpt-4.1': 1_047_576,
  claude: 200_000,
  'deepseek-chat': 64_000,
  'deepseek-reasoner': 64_000,
}
/**
 * The estimated number of bytes per token of a prompt. Tokens of real prompts are longer, so the prompt's size is
 * overestimated and the computed space for the answer is never too large.
 */
const BYTES_PER_TOKEN = 3
/** The lowest output limit that is requested, however long the prompt is. */
const MIN_OUTPUT_BESIDE_PROMPT = 1_024

/** Matches the path, region and vendor that Bedrock and resellers write before a model name. */
const BEFORE_NAME = /^(?:.*\/)?(?:(?:[a-z]+\.)?(?:anthropic|amazon|openai|google)\.)?/

/**
 * Matches variants whose limits differ from the limits of the base model. If a variant has no row of its own, its limit
 * is unknown.
 */
const VARIANT = /-(?:audio|chat|image|preview|realtime|tts)(?=-|$)/

/**
 * Returns the row of a model. `model` is the model's name at the provider. Returns undefined if the model is not
 * listed.
 */
export function rowOf<Row>(rows: Readonly<Record<string, Row>>, model: string): Row | undefined {
  let name = model.replace(BEFORE_NAME, '')
  // Resellers write Claude versions with a dot, and some write dates with @.
  if (name.startsWith('claude')) name = name.replaceAll('.', '-').replace('@', '-')
  const whole = name
  while (name !== '') {
    if (Object.hasOwn(rows, name)) return VARIANT.test(whole.slice(name.length)) ? undefined : rows[name]
    const cut = Math.max(name.lastIndexOf('-'), name.lastIndexOf('.'), name.lastIndexOf(':'))
    name = name.slice(0, Math.max(0, cut))
  }
  return undefined
}

/** Returns the known output limit of a model. Returns undefined if the model is not listed. */
export const outputLimitOf = (model: string): number | undefined => rowOf(OUTPUT_TOKENS, model)

/**
 * Returns the maximum number of output tokens of a model for a prompt. Undefined for unknown models.
 * @param promptBytes returns the size of the prompt; called only if the limit depends on the prompt
 */
export function outputLimitWithInput(model: string, promptBytes: () => number): number | undefined {
  const limit = outputLimitOf(model)
  const context = rowOf(CONTEXT_TOKENS, model)
  if (limit === undefined || context === undefined) return limit
  const room = context - Math.ceil(promptBytes() / BYTES_PER_TOKEN)
  return Math.min(limit, Math.max(MIN_OUTPUT_BESIDE_PROMPT, room))
}

/** A limit of a request or its answer, and who set it. */
export type SetLimit = { most: number; by: 'operator' | 'key' }

/** The output limit that is sent to a model. `why` is set if the limit differs from the requested limit. */
export type OutputLimit = {
  tokens: number | undefined
  why: SetLimit['by'] | 'model' | 'budget' | undefined
}

/**
 * Decides the output limit of one call. If the caller requests a limit, it applies, up to the limit of the operator or
 * key. Otherwise, a limit is added only if the operator, the key, a budget or the provider's API requires one. The added
 * limit is the lowest of these limits and the model's. `why` names that limit.
 * @param ofModel returns the model's maximum output, if known
 * @param limit the limit of the operator or key
 * @param covered tokens that the payer's budget covers; undefined if no budget limits this request
 * @param isRequired whether the provider's API requires a limit
 */
export function outputLimit({
  asked,
  ofModel,
  limit,
  covered,
  isRequired,
}: {
  asked: number | undefined
  ofModel: () => number | undefined
  limit: SetLimit | undefined
  covered: number | undefined
  isRequired: boolean
}): OutputLimit {
  if (asked !== undefined) {
    return limit && asked > limit.most ? { tokens: limit.most, why: limit.by } : { tokens: asked, why: undefined }
  }
  const isNeeded = isRequired || covered !== undefined
  if (!isNeeded && !limit) return { tokens: undefined, why: undefined }
  const allowed = limit?.most ?? Number.POSITIVE_INFINITY
  const known = ofModel() ?? (isNeeded ? UNKNOWN_OUTPUT_TOKENS : Number.POSITIVE_INFINITY)
  const ofBudget = covered ?? Number.POSITIVE_INFINITY
  if (ofBudget < Math.min(allowed, known)) return { tokens: ofBudget, why: 'budget' }
  return limit && limit.most <= known ? { tokens: limit.most, why: limit.by } : { tokens: known, why: 'model' }
}
