/** The smallest budget for thinking that Anthropic's API takes, in tokens. `max_tokens` has to be above it. */
export const THINKING_MIN_TOKENS = 1024

/** The models whose thinking has a budget; those before them do not think, those after them are told an effort. */
const HAS_BUDGET = /claude-(?:3-7-sonnet|(?:opus|sonnet|haiku)-4(?:-[015])?(?=$|-\d{8}|-latest|@))/

/** How many tokens thinking takes at least with this model; 0 where it has no budget of its own. */
export const leastThinkingTokens = (model: string): number => (HAS_BUDGET.test(model) ? THINKING_MIN_TOKENS : 0)
