import { invalidField } from '../../shared/errors.ts'
import { ATTEMPT_TIMEOUT_MS, FIRST_TOKEN_TIMEOUT_MS, STALL_TIMEOUT_MS } from '../../shared/spec-limits.ts'
import { type ChatRequest, FAILOVER_TRIGGERS, type FailoverTrigger } from '../../shared/wire/chat.ts'
import type { Provider, ProviderCall } from '../providers/provider.ts'
import type { ProviderRegistry } from '../providers/registry.ts'

/** One model to be tried. */
export type Attempt = {
  /** As the caller names it, `<provider>/<model>`. */
  modelId: string
  provider: Provider
  model: string
  timeouts: ProviderCall['timeouts']
}

/** The models to try, in order, and the failures after which the next one may be tried (named-endpoints §6). */
export type Chain = { attempts: [Attempt, ...Attempt[]]; triggers: ReadonlySet<FailoverTrigger> }

type ChainEntry = { model: string; timeout_ms?: number | undefined; first_token_timeout_ms?: number | undefined }

const ALL_TRIGGERS: ReadonlySet<FailoverTrigger> = new Set(FAILOVER_TRIGGERS)

/**
 * Request → chain: `models` alone, else `model` and then `fallback_models`. Duplicates collapse; an entry's own timeouts
 * beat those of `redundancy`.
 * @throws VALIDATION_ERROR (`Invalid model`) naming what is configured.
 */
export function planChain(request: ChatRequest, registry: ProviderRegistry): Chain {
  const { redundancy } = request
  const entries: ChainEntry[] = request.models ?? [
    { model: request.model as string },
    ...(request.fallback_models ?? []),
  ]
  const attempts = new Map<string, Attempt>()
  for (const entry of entries) {
    if (attempts.has(entry.model)) continue
    const found = registry.find(entry.model)
    if (!found) {
      throw invalidField(
        'model',
        `"${entry.model.slice(0, 200)}" is not offered here. Configured: ${registry.describe().join(', ')}. More come with a provider's key (docs/configuration.md).`,
        entry.model,
      )
    }
    attempts.set(entry.model, {
      modelId: entry.model,
      provider: found.provider,
      model: found.model,
      timeouts: {
        attemptMs: entry.timeout_ms ?? redundancy?.timeout_ms ?? ATTEMPT_TIMEOUT_MS.default,
        firstTokenMs:
          entry.first_token_timeout_ms ?? redundancy?.first_token_timeout_ms ?? FIRST_TOKEN_TIMEOUT_MS.default,
        stallMs: STALL_TIMEOUT_MS,
      },
    })
  }
  const triggers = redundancy?.on ? new Set(redundancy.on) : ALL_TRIGGERS
  return { attempts: [...attempts.values()] as Chain['attempts'], triggers }
}
