import { member, tokenCount } from '../../../platform/text/json.ts'
import type { EndpointConfig } from '../../config.ts'
import { withNoTraining } from '../../no-training.ts'
import { ORIGIN } from '../../part-signature.ts'
import { openPool, type ProviderDeps } from '../../pool.ts'
import type { EmbedCall, Embeddings, Provider, ProviderCall } from '../../provider.ts'
import { unreadableError } from '../stream/failure.ts'
import { withOneCall } from '../stream/one-call.ts'
import { readAnswer, readJson } from '../stream/read-answer.ts'
import { type Authorized, jsonRequest, type RequestSource } from '../stream/upstream.ts'
import { googleFormat, nativeFormat } from './answer.ts'
import { toEmbedRequest, toGoogleEmbeddings } from './embeddings.ts'
import { nativeOf, toGoogleRequest } from './request.ts'

export type GoogleProvider = Provider & Required<Pick<Provider, 'embed' | 'countTokens'>>

export type GoogleOptions = Pick<EndpointConfig, 'name' | 'baseUrl' | 'apiKey' | 'headers' | 'models'>

/**
 * The Gemini API: `generateContent`, `streamGenerateContent`, `countTokens` and `batchEmbedContents` of a model. `/v1beta` is appended
 * to `baseUrl`, unless `baseUrl` already ends with a version. `chat` throws a ProviderError (`bad_request`) for options
 * that the API does not support.
 */
export function googleProvider(options: GoogleOptions, deps: ProviderDeps): GoogleProvider {
  const path = new URL(options.baseUrl).pathname.replace(/\/+$/, '')
  const basePath = hasVersion(path) ? path : `${path}/v1beta`
  return speakGemini(options, deps, {
    toPath: (model) => `${basePath}/${resourceOf(model)}`,
    authorized: (headers, make) => make(headers),
    toCountRequest: (call) => ({ generateContentRequest: { model: resourceOf(call.model), ...toGoogleRequest(call) } }),
    embedding: {
      operation: 'batchEmbedContents',
      toRequest: (call) => toEmbedRequest(call, resourceOf(call.model)),
      toEmbeddings: toGoogleEmbeddings,
    },
  })
}

/** The differences between the two services that have Gemini models. */
export type GeminiWays = {
  /** The path of a model, without its operation. */
  toPath(model: string): string
  authorized: Authorized
  toCountRequest(call: ProviderCall): object
  embedding: {
    operation: string
    toRequest(call: EmbedCall): object
    toEmbeddings(body: unknown, count: number): Embeddings
  }
}

/** Calls Gemini models in either service. */
export function speakGemini(
  options: GoogleOptions,
  { clock, connect = openPool }: ProviderDeps,
  { toPath, authorized, toCountRequest, embedding }: GeminiWays,
): GoogleProvider {
  const usualHeaders = requestHeaders(options)
  const privateHeaders = withNoTraining(usualHeaders)
  const pool = connect(options.baseUrl)

  function request(call: ProviderCall | EmbedCall, operation: string, toValue: () => object): RequestSource {
    const path = `${toPath(call.model)}:${operation}`
    return authorized(call.noTraining ? privateHeaders : usualHeaders, (headers) =>
      jsonRequest(call, { path, headers }, toValue),
    )
  }

  return {
    name: options.name,
    models: options.models,
    origin: ORIGIN,
    chat(call, signal) {
      const answer = readAnswer(
        {
          pool,
          clock,
          request: request(call, call.stream ? 'streamGenerateContent?alt=sse' : 'generateContent', () =>
            toGoogleRequest(call),
          ),
          format: nativeOf(call.options) ? nativeFormat : googleFormat,
          streamed: call.stream,
          timeouts: call.timeouts,
          onHead: call.onHead,
        },
        signal,
      )
      return withOneCall(call, answer)
    },
    async countTokens(call, signal) {
      const { attemptMs } = call.timeouts
      const count = request(call, 'countTokens', () => toCountRequest(call))
      const answer = await readJson({ pool, clock, request: count, attemptMs, onHead: call.onHead }, signal)
      const tokens = tokenCount(member(answer, 'totalTokens'))
      if (tokens === undefined) throw unreadableError('an invalid token count')
      return tokens
    },
    async embed(call, signal) {
      const { attemptMs, onHead } = call
      const embed = request(call, embedding.operation, () => embedding.toRequest(call))
      const answer = await readJson({ pool, clock, request: embed, attemptMs, onHead }, signal)
      return embedding.toEmbeddings(answer, call.input.length)
    },
    close: () => pool.destroy(),
  }
}

export const hasVersion = (path: string): boolean => /\/v\d+\w*$/.test(path)

/**
 * The name of a tuned model includes its collection in the path. Any other model name becomes one encoded segment below
 * `models`.
 */
const resourceOf = (model: string): string =>
  /^(models|tunedModels)\/[\w-][\w.-]*$/.test(model) ? model : `models/${encodeURIComponent(model)}`

/** Alternating names and values. Configured headers override ours. */
function requestHeaders({ apiKey, headers }: GoogleOptions): string[] {
  const merged = new Map([
    ['content-type', 'application/json'],
    // Requests uncompressed responses: the gateway cannot decompress them, and some proxies compress by default.
    ['accept-encoding', 'identity'],
    ['user-agent', 'aigw'],
  ])
  if (apiKey !== undefined) merged.set('x-goog-api-key', apiKey)
  for (const [name, value] of Object.entries(headers)) merged.set(name.toLowerCase(), value)
  return [...merged].flat()
}
