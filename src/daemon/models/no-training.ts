/**
 * The header that asks a provider not to train on a call. The header is only a request: no provider API defines such a
 * field.
 */
export const NO_TRAINING_HEADER = 'x-no-training'

/**
 * Returns the headers (alternating names and values) with the no-training header. This header replaces a configured
 * header of the same name, because a policy requires this header's value.
 */
export function withNoTraining(headers: readonly string[]): string[] {
  const others = headers.filter((_, at) => headers[at - (at % 2)] !== NO_TRAINING_HEADER)
  return [...others, NO_TRAINING_HEADER, 'true']
}
