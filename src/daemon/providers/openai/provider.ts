import { Pool } from 'undici'
import type { Clock } from '../../../shared/time.ts'
import type { ProviderConfig } from '../../config.ts'
import type { Provider } from '../provider.ts'
import { readAnswer } from '../stream/answer.ts'
import { openAiFormat, toOpenAiRequest } from './wire.ts'

export type OpenAiOptions = Pick<ProviderConfig, 'name' | 'baseUrl' | 'apiKey' | 'headers' | 'models'>

/**
 * A server that speaks OpenAI's chat completions. `baseUrl` is taken as it is, `/chat/completions` is put after its
 * path.
 */
export function openAiProvider(options: OpenAiOptions, { clock }: { clock: Clock }): Provider {
  const url = new URL(options.baseUrl)
  const path = `${url.pathname.replace(/\/+$/, '')}/chat/completions`
  const headers = requestHeaders(options)
  // One pool for the provider's life. Each connection carries one call at a time, because a stream may take minutes.
  const pool = new Pool(url.origin, { pipelining: 1 })

  return {
    name: options.name,
    models: options.models,
    chat: (call, signal) =>
      readAnswer(
        {
          pool,
          clock,
          request: { path, headers, body: JSON.stringify(toOpenAiRequest(call)) },
          format: openAiFormat,
          streamed: call.stream,
          timeouts: call.timeouts,
        },
        signal,
      ),
    close: () => pool.destroy(),
  }
}

/** Name and value in turn, as undici likes them best; what is configured wins over ours. */
function requestHeaders({ apiKey, headers }: OpenAiOptions): string[] {
  const merged = new Map([
    ['content-type', 'application/json'],
    ['user-agent', 'aigw'],
  ])
  if (apiKey !== undefined) merged.set('authorization', `Bearer ${apiKey}`)
  for (const [name, value] of Object.entries(headers)) merged.set(name.toLowerCase(), value)
  return [...merged].flat()
}
