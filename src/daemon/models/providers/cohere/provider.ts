// The HTTP calls of Cohere's own API.
import type { EndpointConfig } from '../../config.ts'
import { withNoTraining } from '../../no-training.ts'
import { openPool, type ProviderDeps } from '../../pool.ts'
import type { Provider } from '../../provider.ts'
import { toReranked, toRerankRequest } from '../openai/rerank.ts'
import { withOneCall } from '../stream/one-call.ts'
import { readAnswer, readJson } from '../stream/read-answer.ts'
import { jsonRequest } from '../stream/upstream.ts'
import { cohereFormat } from './answer.ts'
import { toCohereEmbeddings, toEmbedRequest } from './embeddings.ts'
import { toCohereRequest } from './request.ts'

export type CohereProvider = Provider & Required<Pick<Provider, 'embed' | 'rerank'>>

export type CohereOptions = Pick<EndpointConfig, 'name' | 'baseUrl' | 'apiKey' | 'headers' | 'models'>

/**
 * Cohere's API: `/v2/chat`, `/v2/embed` and `/v2/rerank` are appended to `baseUrl`, which may already end in `/v2`.
 * `chat` throws a ProviderError (`bad_request`) for options that the API does not support.
 */
export function cohereProvider(options: CohereOptions, { clock, connect = openPool }: ProviderDeps): CohereProvider {
  const url = new URL(options.baseUrl)
  const basePath = `${url.pathname.replace(/(\/v[12])?\/*$/, '')}/v2`
  const usualHeaders = requestHeaders(options)
  const privateHeaders = withNoTraining(usualHeaders)
  const headersOf = ({ noTraining }: { noTraining?: boolean | undefined }) =>
    noTraining ? privateHeaders : usualHeaders
  const pool = connect(url)

  return {
    name: options.name,
    models: options.models,
    chat(call, signal) {
      const answer = readAnswer(
        {
          pool,
          clock,
          request: jsonRequest(call, { path: `${basePath}/chat`, headers: headersOf(call) }, () =>
            toCohereRequest(call),
          ),
          format: cohereFormat,
          streamed: call.stream,
          timeouts: call.timeouts,
          onHead: call.onHead,
        },
        signal,
      )
      return withOneCall(call, answer)
    },
    async embed(call, signal) {
      const where = { path: `${basePath}/embed`, headers: headersOf(call) }
      const request = jsonRequest(call, where, () => toEmbedRequest(call))
      const answer = await readJson({ pool, clock, request, attemptMs: call.attemptMs, onHead: call.onHead }, signal)
      return toCohereEmbeddings(answer, call.input.length)
    },
    async rerank(call, signal) {
      const where = { path: `${basePath}/rerank`, headers: headersOf(call) }
      const request = jsonRequest(call, where, () => toRerankRequest(call))
      const answer = await readJson({ pool, clock, request, attemptMs: call.attemptMs, onHead: call.onHead }, signal)
      return toReranked(answer, call.documents.length)
    },
    close: () => pool.destroy(),
  }
}

/** Alternating names and values. Configured headers override ours. */
function requestHeaders({ apiKey, headers }: CohereOptions): string[] {
  const merged = new Map([
    ['content-type', 'application/json'],
    // Requests uncompressed responses: the gateway cannot decompress them, and some proxies compress by default.
    ['accept-encoding', 'identity'],
    ['user-agent', 'aigw'],
  ])
  if (apiKey !== undefined) merged.set('authorization', `Bearer ${apiKey}`)
  for (const [name, value] of Object.entries(headers)) merged.set(name.toLowerCase(), value)
  return [...merged].flat()
}
