import type { ProviderConfig } from '../../../../../src/daemon/models/config.ts'
import { upstreamProvider } from '../../../../harness.ts'
import { replyJson, type Script, startUpstream, type Upstream } from '../../../../upstream.ts'

/** Words by topic. The more words of a topic a text has, the closer its vector is to that topic. */
const TOPICS = [
  ['feline', 'cat', 'kitten', 'purring', 'whiskers'],
  ['car', 'automobile', 'vehicle', 'sedan', 'engine'],
  ['physician', 'doctor', 'surgeon', 'clinic', 'medicine'],
  ['money', 'salary', 'wage', 'pay', 'income'],
]

/** The vectors of the models: `small` and `other` place the topics differently. */
export function topicVector(text: string, { dimensions = 8, shift = 0 } = {}): number[] {
  const words = text.toLowerCase().match(/\p{L}+/gu) ?? []
  const vector = Array.from({ length: dimensions }, () => 0.01)
  for (const [topic, of] of TOPICS.entries()) {
    const at = (topic + shift) % dimensions
    vector[at] = (vector[at] ?? 0) + words.filter((word) => of.includes(word)).length
  }
  return vector
}

export type EmbeddingServer = {
  upstream: Upstream
  /** Under the name `embedder`, with the models `small` and `other`. */
  provider: ProviderConfig
  /** Every received text with its model, in order. */
  texts(): { model: string; text: string }[]
  /** The response from now on. */
  answer(script: Script): void
  /** Responds with vectors again. */
  recover(): void
}

type EmbeddingsBody = { model: string; input: string[]; dimensions?: number }

/** A real server with OpenAI's /embeddings; its vectors distinguish a few topics. */
export async function startEmbeddingServer(): Promise<EmbeddingServer> {
  const upstream = await startUpstream()
  upstream.fallback(answerWithVectors)
  return {
    upstream,
    provider: upstreamProvider('embedder', upstream.url),
    texts: () =>
      upstream.requests.flatMap(({ body }) => {
        const { model, input } = body as EmbeddingsBody
        return (input ?? []).map((text) => ({ model, text }))
      }),
    answer: upstream.fallback,
    recover: () => upstream.fallback(answerWithVectors),
  }
}

/** One vector per text. Models whose name starts with `other` use twice as many dimensions and other positions. */
export const answerWithVectors: Script = (exchange) => {
  const { model, input, dimensions } = exchange.request.body as EmbeddingsBody
  const shape = model.startsWith('other') ? { dimensions: 16, shift: 5 } : { dimensions: dimensions ?? 8, shift: 0 }
  return replyJson({
    object: 'list',
    model,
    data: input.map((text, index) => ({ object: 'embedding', index, embedding: topicVector(text, shape) })),
    usage: { prompt_tokens: input.length, total_tokens: input.length },
  })(exchange)
}
