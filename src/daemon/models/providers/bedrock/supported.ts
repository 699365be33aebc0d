import type { Provider } from '../../provider.ts'

const CACHES = /anthropic\.claude|amazon\.nova/
const CLAUDE = /anthropic\.claude/

/** The options that Converse does not have. Only Claude's thinking can be disabled. */
export const droppedOnBedrock: NonNullable<Provider['drops']> = ({ user, noReasoning }, model) => [
  ...(user === undefined ? [] : (['user'] as const)),
  ...(noReasoning && !CLAUDE.test(model) ? (['thinking'] as const) : []),
]

/** Whether Converse caches prompts for this model. */
export const cachesPrompts = (model: string): boolean => CACHES.test(model)

/** Whether a model on Bedrock supports this option of Anthropic's API. */
export const supportsOnBedrock = (option: string, model: string): boolean =>
  (option === 'cache_control' && cachesPrompts(model)) || (option === 'thinking' && CLAUDE.test(model))
