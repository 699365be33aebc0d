import type { Provider } from '../../provider.ts'

/**
 * Matches models that think by default and can disable thinking. All other models either never think or always think.
 */
export const WITHOUT_THINKING_CONFIG = /gemini-2\.5-flash(?!-image)/

/** The options that Gemini's API does not have. */
export const droppedByGoogle: NonNullable<Provider['drops']> = ({ user, noReasoning }, model) => [
  ...(user === undefined ? [] : (['user'] as const)),
  ...(noReasoning && !WITHOUT_THINKING_CONFIG.test(model) ? (['thinking'] as const) : []),
]
