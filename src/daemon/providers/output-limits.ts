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

/** Region, maker and path before the name of a model, as Bedrock and resellers write them. */
const BEFORE_NAME = /^(?:.*\/)?(?:(?:[a-z]+\.)?(?:anthropic|amazon|openai|google)\.)?/

/** Variants whose limits differ from those of the model that they are named after; one without a row is not known. */
const VARIANT = /-(?:audio|chat|image|preview|realtime|tts)(?=-|$)/

/** The known limit of a model, by its provider's name of it; undefined for one that is not listed. */
export function outputLimitOf(model: string): number | undefined {
  let name = model.replace(BEFORE_NAME, '')
  // Resellers write the versions of Claude with a dot, and some dates with @.
  if (name.startsWith('claude')) name = name.replaceAll('.', '-').replace('@', '-')
  const whole = name
  while (name !== '') {
    if (Object.hasOwn(OUTPUT_TOKENS, name)) {
      return VARIANT.test(whole.slice(name.length)) ? undefined : OUTPUT_TOKENS[name]
    }
    const cut = Math.max(name.lastIndexOf('-'), name.lastIndexOf('.'), name.lastIndexOf(':'))
    name = name.slice(0, Math.max(0, cut))
  }
  return undefined
}

/** The most tokens that are reserved for an answer without a limit of its own. @param operatorLimit `limits.max_tokens` */
export const reservedOutput = (model: string, operatorLimit: number | undefined): number =>
  Math.min(outputLimitOf(model) ?? UNKNOWN_OUTPUT_TOKENS, operatorLimit ?? Number.POSITIVE_INFINITY)

/** What is sent to a model as the limit of its answer; `why` where it is not what was asked. */
export type OutputLimit = {
  tokens: number | undefined
  why: 'operator' | 'model' | 'budget' | undefined
}

/**
 * Decides the limit of one model's answer (named-endpoints §26): as asked, and none put in when none was asked, unless the
 * operator, a budget or the provider's interface needs one. The smallest of their limits and the model's own is the reason.
 * @param covered tokens that the payer's budget covers; undefined where none limits this request
 * @param isRequired whether the provider's interface needs a limit
 */
export function outputLimit(
  model: string,
  {
    asked,
    operatorLimit,
    covered,
    isRequired,
  }: {
    asked: number | undefined
    operatorLimit: number | undefined
    covered: number | undefined
    isRequired: boolean
  },
): OutputLimit {
  if (asked !== undefined) {
    const isLowered = operatorLimit !== undefined && asked > operatorLimit
    return isLowered ? { tokens: operatorLimit, why: 'operator' } : { tokens: asked, why: undefined }
  }
  const isNeeded = isRequired || covered !== undefined
  if (!isNeeded && operatorLimit === undefined) return { tokens: undefined, why: undefined }
  const ofOperator = operatorLimit ?? Number.POSITIVE_INFINITY
  const ofModel = outputLimitOf(model) ?? (isNeeded ? UNKNOWN_OUTPUT_TOKENS : Number.POSITIVE_INFINITY)
  const ofBudget = covered ?? Number.POSITIVE_INFINITY
  if (ofBudget < Math.min(ofOperator, ofModel)) return { tokens: ofBudget, why: 'budget' }
  return ofModel < ofOperator ? { tokens: ofModel, why: 'model' } : { tokens: ofOperator, why: 'operator' }
}
