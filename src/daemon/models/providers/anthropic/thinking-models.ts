/** The minimum thinking budget of Anthropic's API, in tokens. `max_tokens` must exceed it. */
export const THINKING_MIN_TOKENS = 1024

/** Models with a thinking budget. Older models do not support thinking. Newer models use an effort instead. */
const HAS_BUDGET = /claude-(?:3-7-sonnet|(?:opus|sonnet|haiku)-4(?:-[015])?(?=$|-\d{8}|-latest|@))/

/** Returns the minimum number of thinking tokens of this model. Returns 0 for models without a thinking budget. */
export const leastThinkingTokens = (model: string): number => (HAS_BUDGET.test(model) ? THINKING_MIN_TOKENS : 0)
