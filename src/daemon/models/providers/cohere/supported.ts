import type { Provider } from '../../provider.ts'

/** The origin of Cohere's reasoning. It is sent only to Cohere. */
export const COHERE_ORIGIN = 'cohere'

/** Matches models that think by default. All other models never think. */
export const THINKS = /reasoning/

/** The options that Cohere's API does not have. */
export const droppedByCohere: NonNullable<Provider['drops']> = ({ user, noReasoning }, model) => [
  ...(user === undefined ? [] : (['user'] as const)),
  ...(noReasoning && !THINKS.test(model) ? (['thinking'] as const) : []),
]
