import type { Log } from '../log.ts'
import type { Exchange } from './exchange.ts'
import type { RequestObserver } from './request-observer.ts'
import { endpointOf } from './route.ts'

/** The message of the log line that describes one request. */
export const REQUEST_LINE = 'request'

/**
 * Logs one line per request, with everything that is known about it. A line contains ids, names of the configuration
 * and numbers. It never contains content, and no text that the caller chose, such as a path or an unknown model.
 * @param surfaceOf returns the interface of a route
 * @param modelOf returns the name of a model that may be logged
 */
export function createRequestLog({
  log,
  surfaceOf,
  modelOf,
}: {
  log: Log
  surfaceOf: (route: Exchange['route']) => string
  modelOf: (modelId: string) => string
}): RequestObserver {
  return {
    ended(exchange, { status, outcome, error, durationMs }) {
      const { requestId, route, caller, bundleId, trace, observed, request, response } = exchange
      const isKnown = route !== undefined && caller.tenantId !== ''
      log.info(
        {
          request_id: requestId,
          trace_id: trace?.traceId,
          surface: surfaceOf(route),
          route: route && endpointOf(route),
          status,
          outcome,
          error,
          duration_ms: Math.round(durationMs),
          request_bytes: Number(request.headers['content-length'] ?? 0) || 0,
          response_started: response.headersSent,
          ...(isKnown && { tenant_id: caller.tenantId, user_id: caller.userId, key_id: caller.keyId }),
          bundle_id: bundleId,
          ...(observed && factsOf(observed, modelOf)),
        },
        REQUEST_LINE,
      )
    },
  }
}

function factsOf(
  { operation, streamed, attempts, findings, answer }: NonNullable<Exchange['observed']>,
  modelOf: (modelId: string) => string,
): object {
  return {
    operation,
    streamed,
    attempts: attempts.map(({ model, ...attempt }) => ({ model: modelOf(model), ...attempt })),
    findings: findings.map(({ kind, direction, action, enforced }) => ({ guard: kind, direction, action, enforced })),
    ...(answer && {
      model: modelOf(answer.model),
      ending: answer.outcome,
      first_token_ms: answer.firstTokenMs,
      input_tokens: answer.usage.inputTokens,
      output_tokens: answer.usage.outputTokens,
      cache_read_tokens: answer.usage.cacheReadTokens,
      cache_write_tokens: answer.usage.cacheWriteTokens,
      reasoning_tokens: answer.usage.reasoningTokens,
      cost_dollars: answer.nanos / 1e9,
      points: answer.points,
      cache: answer.cache,
    }),
  }
}
