/** How every provider is told that nobody is to train on a call (named-endpoints §13). It is a wish: no interface has a word for it. */
export const NO_TRAINING_HEADER = 'x-no-training'

/** The same headers, name and value in turn, with that wish; a policy asks for it, so it wins over what is configured. */
export function withNoTraining(headers: readonly string[]): string[] {
  const others = headers.filter((_, at) => headers[at - (at % 2)] !== NO_TRAINING_HEADER)
  return [...others, NO_TRAINING_HEADER, 'true']
}
