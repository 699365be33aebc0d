const CACHES = /anthropic\.claude|amazon\.nova/
const CLAUDE = /anthropic\.claude/

/** Whether Converse caches prompts for this model. */
export const cachesPrompts = (model: string): boolean => CACHES.test(model)

/** Whether a model on Bedrock supports this option of Anthropic's API. */
export const supportsOnBedrock = (option: string, model: string): boolean =>
  (option === 'cache_control' && cachesPrompts(model)) || (option === 'thinking' && CLAUDE.test(model))
