// The HTTP calls of Amazon Bedrock.
import type { AwsCredentials, ProviderConfig } from '../../config.ts'
import { NO_TRAINING_HEADER } from '../../no-training.ts'
import { openPool, type ProviderDeps } from '../../pool.ts'
import { type Provider, type ProviderCall, ProviderError } from '../../provider.ts'
import { withOneCall } from '../stream/one-call.ts'
import { readAnswer, readJson } from '../stream/read-answer.ts'
import { jsonRequest, type RequestSource } from '../stream/upstream.ts'
import { bedrockBaseUrl } from './address.ts'
import { bedrockFormat } from './answer.ts'
import { embeddingFamily, toBedrockEmbeddings } from './embeddings.ts'
import { toBedrockRequest } from './request.ts'
import { createSigner } from './signature.ts'

export type BedrockProvider = Provider & Required<Pick<Provider, 'embed'>>

type Asked = Pick<ProviderCall, 'model' | 'noTraining' | 'entitle' | 'isLarge'>

export type BedrockOptions = Pick<ProviderConfig, 'name' | 'apiKey' | 'headers' | 'models'> & {
  /** The AWS region, such as `eu-central-1`. */
  region: string
  /** If undefined, Amazon's endpoint for the region is used. */
  baseUrl?: string | undefined
  /** Used to sign calls if there is no API key. */
  credentials?: AwsCredentials | undefined
}

/**
 * Amazon Bedrock. Chats call Converse or ConverseStream with the id or ARN of a model or an inference profile.
 * Embeddings call InvokeModel. `chat` throws a ProviderError (`bad_request`) for options that the API does not support.
 */
export function bedrockProvider(options: BedrockOptions, { clock, connect = openPool }: ProviderDeps): BedrockProvider {
  const url = new URL(options.baseUrl ?? bedrockBaseUrl(options.region))
  const basePath = url.pathname.replace(/\/+$/, '')
  const usualHeaders = requestHeaders(options, url.host)
  const privateHeaders = { ...usualHeaders, [NO_TRAINING_HEADER]: 'true' }
  // A configured authorization header overrides the signature. All configured headers override ours.
  const sign =
    options.credentials && usualHeaders.authorization === undefined
      ? createSigner(options.region, options.credentials)
      : undefined
  const pool = connect(url)

  function request(call: Asked, operation: string, toValue: () => object): RequestSource {
    const path = `${basePath}/model/${segmentOf(call.model)}/${operation}`
    const headers = call.noTraining ? privateHeaders : usualHeaders
    const unsigned = jsonRequest(call, { path, headers: Object.entries(headers).flat() }, toValue)
    if (!sign) return unsigned
    return async () => {
      const request = typeof unsigned === 'function' ? await unsigned() : unsigned
      const signed = await sign({ url, path, headers, body: request.body }, clock.now())
      return { ...request, headers: Object.entries(signed).flat() }
    }
  }

  return {
    name: options.name,
    models: options.models,
    chat(call, signal) {
      const answer = readAnswer(
        {
          pool,
          clock,
          request: request(call, call.stream ? 'converse-stream' : 'converse', () => toBedrockRequest(call)),
          format: bedrockFormat,
          streamed: call.stream,
          timeouts: call.timeouts,
          onHead: call.onHead,
        },
        signal,
      )
      return withOneCall(call, answer)
    },
    async embed(call, signal) {
      const family = embeddingFamily(call)
      const answer = await readJson(
        {
          pool,
          clock,
          request: request(call, 'invoke', () => family.toRequest(call)),
          attemptMs: call.attemptMs,
          onHead: call.onHead,
        },
        signal,
      )
      return toBedrockEmbeddings(answer, family, call.input.length)
    },
    close: () => pool.destroy(),
  }
}

/** Encodes the model as one path segment, because an ARN contains slashes and colons. */
function segmentOf(model: string): string {
  if (/^\.+$/.test(model)) throw new ProviderError('bad_request', 'The provider has no model with this name.')
  return encodeURIComponent(model)
}

/**
 * Header names are in lower case. Configured headers override ours. An API key takes precedence over credentials, as in
 * AWS's own clients.
 */
function requestHeaders({ apiKey, headers }: BedrockOptions, host: string): Readonly<Record<string, string>> {
  return {
    host,
    'content-type': 'application/json',
    // Requests uncompressed responses: the gateway cannot decompress them, and some proxies compress by default.
    'accept-encoding': 'identity',
    'user-agent': 'aigw',
    ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
    ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
  }
}
