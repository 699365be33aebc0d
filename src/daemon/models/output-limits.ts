import { UNKNOWN_OUTPUT_TOKENS } from '../../shared/spec-limits.ts'

/**
 * The most tokens that an answer of a well-known model may have. From general knowledge on 2026-11-22, not copied from the
 * providers' pages: compare them before a release. A name also stands for its editions (`gpt-4o` for `gpt-4o-2024-08-06`),
 * unless a longer name fits. Where editions differ, the lowest limit of the family stands.
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
 * The tokens of prompt and answer together, of models whose provider rejects a limit that does not fit beside the prompt. From
 * general knowledge, as above.
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
/** Prompts have more bytes for each token, so too few tokens are left for an answer rather than too many. */
const BYTES_PER_TOKEN = 3
/** However little seems to be left beside a prompt, this much is asked for. */
const LEAST_BESIDE_PROMPT = 1_024

/** Region, maker and path before the name of a model, as Bedrock and resellers write them. */
const BEFORE_NAME = /^(?:.*\/)?(?:(?:[a-z]+\.)?(?:anthropic|amazon|openai|google)\.)?/

/** Variants whose limits differ from those of the model that they are named after; one without a row is not known. */
const VARIANT = /-(?:audio|chat|image|preview|realtime|tts)(?=-|$)/

/** The row of a model, by its provider's name of it; undefined for one that is not listed. */
function rowOf(rows: Readonly<Record<string, number>>, model: string): number | undefined {
  let name = model.replace(BEFORE_NAME, '')
  // Resellers write the versions of Claude with a dot, and some dates with @.
  if (name.startsWith('claude')) name = name.replaceAll('.', '-').replace('@', '-')
  const whole = name
  while (name !== '') {
    if (Object.hasOwn(rows, name)) return VARIANT.test(whole.slice(name.length)) ? undefined : rows[name]
    const cut = Math.max(name.lastIndexOf('-'), name.lastIndexOf('.'), name.lastIndexOf(':'))
    name = name.slice(0, Math.max(0, cut))
  }
  return undefined
}

/** The known limit of a model's answers; undefined for one that is not listed. */
export const outputLimitOf = (model: string): number | undefined => rowOf(OUTPUT_TOKENS, model)

/**
 * The most tokens that a model can answer to a prompt; undefined for a model that is not known.
 * @param promptBytes asked for only where the prompt counts
 */
export function outputLimitBeside(model: string, promptBytes: () => number): number | undefined {
  const limit = outputLimitOf(model)
  const context = rowOf(CONTEXT_TOKENS, model)
  if (limit === undefined || context === undefined) return limit
  const room = context - Math.ceil(promptBytes() / BYTES_PER_TOKEN)
  return Math.min(limit, Math.max(LEAST_BESIDE_PROMPT, room))
}

/** What is sent to a model as the limit of its answer; `why` where it is not what was asked. */
export type OutputLimit = {
  tokens: number | undefined
  why: 'operator' | 'model' | 'budget' | undefined
}

/**
 * Decides the limit of one model's answer (named-endpoints §26): as asked, and none put in when none was asked, unless the
 * operator, a budget or the provider's interface needs one. The smallest of their limits and the model's own is the reason.
 * @param ofModel the most that the model can answer, if it is known
 * @param covered tokens that the payer's budget covers; undefined where none limits this request
 * @param isRequired whether the provider's interface needs a limit
 */
export function outputLimit({
  asked,
  ofModel,
  operatorLimit,
  covered,
  isRequired,
}: {
  asked: number | undefined
  ofModel: () => number | undefined
  operatorLimit: number | undefined
  covered: number | undefined
  isRequired: boolean
}): OutputLimit {
  if (asked !== undefined) {
    const isLowered = operatorLimit !== undefined && asked > operatorLimit
    return isLowered ? { tokens: operatorLimit, why: 'operator' } : { tokens: asked, why: undefined }
  }
  const isNeeded = isRequired || covered !== undefined
  if (!isNeeded && operatorLimit === undefined) return { tokens: undefined, why: undefined }
  const ofOperator = operatorLimit ?? Number.POSITIVE_INFINITY
  const known = ofModel() ?? (isNeeded ? UNKNOWN_OUTPUT_TOKENS : Number.POSITIVE_INFINITY)
  const ofBudget = covered ?? Number.POSITIVE_INFINITY
  if (ofBudget < Math.min(ofOperator, known)) return { tokens: ofBudget, why: 'budget' }
  return known < ofOperator ? { tokens: known, why: 'model' } : { tokens: ofOperator, why: 'operator' }
}
