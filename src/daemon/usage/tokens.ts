import { estimateTokenCount } from 'tokenx'

/** About how many tokens a model would count in `text`; 0 only for the empty text. Linear in its length. */
export function countTokens(text: string): number {
  return text === '' ? 0 : Math.max(1, estimateTokenCount(text))
}
