// Records embeddings for the answer cache.
import type { EmbeddingsRequest } from '../../../shared/wire/openai.ts'
import type { Embeddings, TokenUsage } from '../../models/provider.ts'
import type { GovernedInput } from '../governed/input.ts'
import type { Caching } from '../governed/operation.ts'

/** The version of `keyOf` and of the recorded form. Increase it if either changes. */
const FORMAT = 1
/** The usual length of a number in JSON. Vectors that are probably too large are not written, because that takes long. */
const CHARS_PER_NUMBER = 12

type Input = GovernedInput & Pick<EmbeddingsRequest, 'dimensions'>

export const EMBEDDINGS_CACHING: Caching<Input, undefined, Embeddings> = {
  // The encoding is not part of the key: vectors are stored as numbers.
  keyOf: ({ screened: { conversation, options, input, policy } }) => [
    FORMAT,
    conversation.messages,
    input.dimensions ?? null,
    options?.user ?? null,
    options?.native ?? null,
    policy.document.privacyHeaders.noTraining,
  ],
  record: (begun, maxBytes) => ({
    begun,
    complete(usage) {
      const numbers = begun.vectors.reduce((sum, vector) => sum + vector.length, 0)
      if (numbers * CHARS_PER_NUMBER > maxBytes) return undefined
      const vectors = begun.vectors.map((vector) => Array.from(vector))
      const json = JSON.stringify({ vectors, usage } satisfies Recorded)
      return json.length > maxBytes ? undefined : json
    },
  }),
  replay: (_running, _attempt, recorded) => JSON.parse(recorded) as Recorded,
}

type Recorded = { vectors: number[][]; usage: TokenUsage }
