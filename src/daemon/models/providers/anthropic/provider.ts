// The HTTP calls of Anthropic's Messages API.
import { member, tokenCount } from '../../../platform/text/json.ts'
import type { ProviderConfig } from '../../config.ts'
import { withNoTraining } from '../../no-training.ts'
import { openPool, type ProviderDeps } from '../../pool.ts'
import type { Provider } from '../../provider.ts'
import { unreadableError } from '../stream/failure.ts'
import { readAnswer, readJson } from '../stream/read-answer.ts'
import { jsonRequest } from '../stream/upstream.ts'
import { anthropicFormat } from './answer.ts'
import { toAnthropicRequest, toCountRequest } from './request.ts'

export type AnthropicProvider = Provider & Required<Pick<Provider, 'countTokens'>>

export type AnthropicOptions = Pick<ProviderConfig, 'name' | 'apiKey' | 'headers' | 'models'> & {
  /** Undefined: Anthropic's own address. */
  baseUrl?: string | undefined
}

const ANTHROPIC_URL = 'https://api.anthropic.com'
const ANTHROPIC_VERSION = '2023-06-01'

/**
 * A server that implements Anthropic's Messages API. `/v1/messages` is appended to `baseUrl`. `baseUrl` may already end
 * in `/v1`.
 */
export function anthropicProvider(
  options: AnthropicOptions,
  { clock, connect = openPool }: ProviderDeps,
): AnthropicProvider {
  const url = new URL(options.baseUrl ?? ANTHROPIC_URL)
  const path = `${url.pathname.replace(/(\/v1)?\/*$/, '')}/v1/messages`
  const usualHeaders = requestHeaders(options)
  const privateHeaders = withNoTraining(usualHeaders)
  const pool = connect(url)

  return {
    name: options.name,
    models: options.models,
    chat(call, signal) {
      const headers = call.noTraining ? privateHeaders : usualHeaders
      return readAnswer(
        {
          pool,
          clock,
          request: jsonRequest(call, { path, headers }, () => toAnthropicRequest(call)),
          format: anthropicFormat,
          streamed: call.stream,
          timeouts: call.timeouts,
          onHead: call.onHead,
        },
        signal,
      )
    },
    async countTokens(call, signal) {
      const headers = call.noTraining ? privateHeaders : usualHeaders
      const request = jsonRequest(call, { path: `${path}/count_tokens`, headers }, () => toCountRequest(call))
      const answer = await readJson(
        { pool, clock, request, attemptMs: call.timeouts.attemptMs, onHead: call.onHead },
        signal,
      )
      const tokens = tokenCount(member(answer, 'input_tokens'))
      if (tokens === undefined) throw unreadableError('an invalid token count')
      return tokens
    },
    close: () => pool.destroy(),
  }
}

/** Alternating names and values. Configured headers override ours. */
function requestHeaders({ apiKey, headers }: AnthropicOptions): string[] {
  const merged = new Map([
    ['content-type', 'application/json'],
    // Requests uncompressed responses: the gateway cannot decompress them, and some proxies compress by default.
    ['accept-encoding', 'identity'],
    ['user-agent', 'aigw'],
    ['anthropic-version', ANTHROPIC_VERSION],
  ])
  if (apiKey !== undefined) merged.set('x-api-key', apiKey)
  for (const [name, value] of Object.entries(headers)) merged.set(name.toLowerCase(), value)
  return [...merged].flat()
}
