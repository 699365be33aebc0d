import { member, tokenCount } from '../../../platform/text/json.ts'
import type { EndpointConfig } from '../../config.ts'
import { withNoTraining } from '../../no-training.ts'
import { ORIGIN } from '../../part-signature.ts'
import { openPool, type ProviderDeps } from '../../pool.ts'
import type { Provider } from '../../provider.ts'
import { unreadableError } from '../stream/failure.ts'
import { withOneCall } from '../stream/one-call.ts'
import { readAnswer, readJson } from '../stream/read-answer.ts'
import { jsonRequest } from '../stream/upstream.ts'
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
export function googleProvider(options: GoogleOptions, { clock, connect = openPool }: ProviderDeps): GoogleProvider {
  const url = new URL(options.baseUrl)
  const basePath = versioned(url.pathname.replace(/\/+$/, ''))
  const usualHeaders = requestHeaders(options)
  const privateHeaders = withNoTraining(usualHeaders)
  const pool = connect(url)

  return {
    name: options.name,
    models: options.models,
    origin: ORIGIN,
    chat(call, signal) {
      const operation = call.stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
      const path = `${basePath}/${resourceOf(call.model)}:${operation}`
      const headers = call.noTraining ? privateHeaders : usualHeaders
      const answer = readAnswer(
        {
          pool,
          clock,
          request: jsonRequest(call, { path, headers }, () => toGoogleRequest(call)),
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
      const resource = resourceOf(call.model)
      const where = {
        path: `${basePath}/${resource}:countTokens`,
        headers: call.noTraining ? privateHeaders : usualHeaders,
      }
      const request = jsonRequest(call, where, () => ({
        generateContentRequest: { model: resource, ...toGoogleRequest(call) },
      }))
      const { attemptMs } = call.timeouts
      const answer = await readJson({ pool, clock, request, attemptMs, onHead: call.onHead }, signal)
      const tokens = tokenCount(member(answer, 'totalTokens'))
      if (tokens === undefined) throw unreadableError('an invalid token count')
      return tokens
    },
    async embed(call, signal) {
      const resource = resourceOf(call.model)
      const headers = call.noTraining ? privateHeaders : usualHeaders
      const path = `${basePath}/${resource}:batchEmbedContents`
      const request = jsonRequest(call, { path, headers }, () => toEmbedRequest(call, resource))
      const answer = await readJson({ pool, clock, request, attemptMs: call.attemptMs, onHead: call.onHead }, signal)
      return toGoogleEmbeddings(answer, call.input.length)
    },
    close: () => pool.destroy(),
  }
}

const versioned = (path: string) => (/\/v\d+\w*$/.test(path) ? path : `${path}/v1beta`)

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
