// The HTTP calls of Anthropic's Messages API.
import { member, tokenCount } from '../../../platform/text/json.ts'
import type { ProviderConfig } from '../../config.ts'
import { withNoTraining } from '../../no-training.ts'
import { openPool, type ProviderDeps } from '../../pool.ts'
import type { Provider, ProviderCall } from '../../provider.ts'
import { unreadableError } from '../stream/failure.ts'
import { readAnswer, readJson } from '../stream/read-answer.ts'
import { type Authorized, jsonRequest, type RequestSource } from '../stream/upstream.ts'
import { anthropicFormat, nativeFormat } from './answer.ts'
import { ANTHROPIC_ORIGIN } from './messages.ts'
import { nativeOf, toAnthropicRequest, toCountRequest } from './request.ts'

export type AnthropicProvider = Provider & Required<Pick<Provider, 'countTokens'>>

export type AnthropicOptions = Pick<ProviderConfig, 'name' | 'apiKey' | 'headers' | 'models'> & {
  /** Undefined: Anthropic's own address. */
  baseUrl?: string | undefined
}

const ANTHROPIC_URL = 'https://api.anthropic.com'
const ANTHROPIC_VERSION = '2023-06-01'
const BETA_HEADER = 'anthropic-beta'

/**
 * A server that implements Anthropic's Messages API. `/v1/messages` is appended to `baseUrl`. `baseUrl` may already end
 * in `/v1`.
 */
export function anthropicProvider(options: AnthropicOptions, deps: ProviderDeps): AnthropicProvider {
  const { baseUrl = ANTHROPIC_URL } = options
  const path = `${new URL(baseUrl).pathname.replace(/(\/v1)?\/*$/, '')}/v1/messages`
  return speakMessages({ ...options, baseUrl }, deps, {
    toPath: () => path,
    countPath: `${path}/count_tokens`,
    authorized: (headers, make) => make(headers),
    toBody: (body) => body,
  })
}

/** The differences between the two services that have the Messages API. */
export type MessagesWays = {
  toPath(call: Pick<ProviderCall, 'model' | 'stream'>): string
  countPath: string
  authorized: Authorized
  /** Converts the body of a chat or a count. */
  toBody(body: object, operation: 'chat' | 'count'): object
}

/** Calls Claude models in either service. */
export function speakMessages(
  options: AnthropicOptions & { baseUrl: string },
  { clock, connect = openPool }: ProviderDeps,
  { toPath, countPath, authorized, toBody }: MessagesWays,
): AnthropicProvider {
  const usualHeaders = requestHeaders(options)
  const privateHeaders = withNoTraining(usualHeaders)
  const pool = connect(options.baseUrl)

  function headersOf({ noTraining, options: asked }: ProviderCall): string[] {
    const native = nativeOf(asked)?.headers
    if (!native || Object.keys(native).length === 0) return noTraining ? privateHeaders : usualHeaders
    const headers = requestHeaders(options, native)
    return noTraining ? withNoTraining(headers) : headers
  }

  const request = (call: ProviderCall, path: string, toValue: () => object): RequestSource =>
    authorized(headersOf(call), (headers) => jsonRequest(call, { path, headers }, toValue))

  return {
    name: options.name,
    models: options.models,
    origin: ANTHROPIC_ORIGIN,
    chat: (call, signal) =>
      readAnswer(
        {
          pool,
          clock,
          request: request(call, toPath(call), () => toBody(toAnthropicRequest(call), 'chat')),
          format: nativeOf(call.options) ? nativeFormat : anthropicFormat,
          streamed: call.stream,
          timeouts: call.timeouts,
          onHead: call.onHead,
        },
        signal,
      ),
    async countTokens(call, signal) {
      const { attemptMs } = call.timeouts
      const count = request(call, countPath, () => toBody(toCountRequest(call), 'count'))
      const answer = await readJson({ pool, clock, request: count, attemptMs, onHead: call.onHead }, signal)
      const tokens = tokenCount(member(answer, 'input_tokens'))
      if (tokens === undefined) throw unreadableError('an invalid token count')
      return tokens
    },
    close: () => pool.destroy(),
  }
}

/**
 * Alternating names and values. Configured headers override ours and the client's. The client's betas are added to the
 * configured betas.
 */
function requestHeaders(
  { apiKey, headers }: AnthropicOptions,
  { [BETA_HEADER]: betas, ...asked }: Readonly<Record<string, string>> = {},
): string[] {
  const merged = new Map([
    ['content-type', 'application/json'],
    // Requests uncompressed responses: the gateway cannot decompress them, and some proxies compress by default.
    ['accept-encoding', 'identity'],
    ['user-agent', 'aigw'],
    ['anthropic-version', ANTHROPIC_VERSION],
  ])
  if (apiKey !== undefined) merged.set('x-api-key', apiKey)
  for (const [name, value] of [...Object.entries(asked), ...Object.entries(headers)])
    merged.set(name.toLowerCase(), value)
  if (betas !== undefined) merged.set(BETA_HEADER, withBetas(merged.get(BETA_HEADER), betas))
  return [...merged].flat()
}

/** Joins two lists of betas, without duplicates. */
const withBetas = (configured = '', asked: string): string =>
  [...new Set([...configured.split(','), ...asked.split(',')].map((beta) => beta.trim()))].filter(Boolean).join(',')
