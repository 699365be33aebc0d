import { allowsModel } from '../../../shared/allowlists.ts'
import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { ATTEMPT_TIMEOUT_MS, FIRST_TOKEN_TIMEOUT_MS } from '../../../shared/spec-limits.ts'
import {
  type Change,
  type ChatRequest,
  type CommitPoint,
  FAILOVER_TRIGGERS,
  type FailoverTrigger,
} from '../../../shared/wire/chat.ts'
import type { KeySettings } from '../../../shared/wire/keys.ts'
import type { ModelTimeouts } from '../../models/config.ts'
import type { CallLocation, Provider, ProviderCall } from '../../models/provider.ts'
import type { ProviderRegistry } from '../../models/registry.ts'
import type { RequestLimits } from '../config.ts'

/** The models of a request. Contains at least `model` or `models`. */
export type ChainRequest = Partial<Pick<ChatRequest, 'model' | 'models' | 'fallback_models' | 'redundancy'>>

/** One model to try. */
export type Attempt = {
  /** `<provider>/<model>`, as in the request. */
  modelId: string
  provider: Provider
  model: string
  location: CallLocation
  timeouts: ProviderCall['timeouts']
}

/** The models to try, in order. */
export type Chain = {
  attempts: [Attempt, ...Attempt[]]
  /** The failure reasons after which the next model is tried. */
  triggers: ReadonlySet<FailoverTrigger>
  /** The point after which a streamed answer no longer fails over to another model. */
  commit: CommitPoint
}

type Timeouts = { timeout_ms?: number | undefined; first_token_timeout_ms?: number | undefined }
type ChainEntry = { model: string } & Timeouts
/** The defaults for all entries. An entry may override them. */
type ChainOptions = Timeouts & { on?: FailoverTrigger[] | undefined }

const ALL_TRIGGERS: ReadonlySet<FailoverTrigger> = new Set(FAILOVER_TRIGGERS)

/**
 * Builds the chain of a request from `models`, or from `model` and `fallback_models`, or from `model` and its
 * successors in the key's `failoverDefaults`. The first value that is set takes precedence. Duplicates are removed.
 * Precedence of timeouts: the entry, `redundancy`, the key, the model, its provider, all providers. By default, a stream has a limit on silence
 * but no total timeout. A stream that is buffered until complete has both.
 * @throws VALIDATION_ERROR (`Invalid model`) listing the configured models; INSUFFICIENT_PERMISSIONS if the key is not
 * allowed to use every model of the chain
 */
export function planChain(
  request: ChainRequest,
  registry: ProviderRegistry,
  settings: Pick<KeySettings, 'allowedModels' | 'failoverDefaults'>,
  { stream, limits }: { stream: boolean; limits: Pick<RequestLimits, 'attemptMs' | 'firstTokenMs' | 'silenceMs'> },
): Chain {
  const { entries, options } = chainOf(request, settings.failoverDefaults)
  const commit = request.redundancy?.commit ?? 'first_token'
  // The client sees no progress of a buffered stream, so a total timeout applies.
  const isLive = stream && commit !== 'complete'
  const distinct = entries.filter(({ model }, at) => entries.findIndex((entry) => entry.model === model) === at)
  const attempts = distinct.map((entry): Attempt => {
    const { provider, model, location, timeouts } = usableModel(entry.model, registry, settings.allowedModels)
    const own = timeouts ?? NO_TIMEOUTS
    // The last model has no fallback, and some models reason for a long time without output. An early timeout would
    // lose the answer without any benefit.
    const patience = entry === distinct.at(-1) ? 'last' : 'default'
    const wholeMs =
      own.attemptMs ?? limits.attemptMs ?? (isLive ? Number.POSITIVE_INFINITY : ATTEMPT_TIMEOUT_MS[patience])
    const attemptMs = within(ATTEMPT_TIMEOUT_MS, entry.timeout_ms ?? options.timeout_ms) ?? wholeMs
    const firstMs = own.firstTokenMs ?? limits.firstTokenMs ?? Math.min(attemptMs, FIRST_TOKEN_TIMEOUT_MS[patience])
    const askedMs = entry.first_token_timeout_ms ?? options.first_token_timeout_ms
    const firstTokenMs = within(FIRST_TOKEN_TIMEOUT_MS, askedMs) ?? firstMs
    const stallMs = own.silenceMs ?? limits.silenceMs
    return { modelId: entry.model, provider, model, location, timeouts: { attemptMs, firstTokenMs, stallMs } }
  })
  const triggers = options.on ? new Set(options.on) : ALL_TRIGGERS
  return { attempts: attempts as Chain['attempts'], triggers, commit }
}

const NO_TIMEOUTS: ModelTimeouts = {}

type Bounds = { min: number; max: number }

const within = ({ min, max }: Bounds, value: number | undefined): number | undefined =>
  value === undefined ? undefined : Math.min(max, Math.max(min, value))

/** Lists the time limits of a request that are outside of their bounds, and therefore changed. */
export function clampedTimeouts({ models, fallback_models: fallbacks, redundancy }: ChainRequest): readonly Change[] {
  if (!models && !fallbacks && !redundancy) return NO_CHANGES
  return [
    ...(models ?? []).flatMap((entry, at) => clampedIn(`models[${at}]`, entry)),
    ...(fallbacks ?? []).flatMap((entry, at) => clampedIn(`fallback_models[${at}]`, entry)),
    ...(redundancy ? clampedIn('redundancy', redundancy) : []),
  ]
}

const NO_CHANGES: readonly Change[] = []

function clampedIn(where: string, { timeout_ms, first_token_timeout_ms }: Timeouts & { model?: string }): Change[] {
  const change = (name: string, bounds: Bounds, asked: number | undefined): Change[] => {
    const used = within(bounds, asked)
    if (asked === undefined || used === undefined || used === asked) return []
    return [{ field: `${where}.${name}`, asked, used, why: 'gateway' }]
  }
  return [
    ...change('timeout_ms', ATTEMPT_TIMEOUT_MS, timeout_ms),
    ...change('first_token_timeout_ms', FIRST_TOKEN_TIMEOUT_MS, first_token_timeout_ms),
  ]
}

function chainOf(
  { model, models, fallback_models: fallbacks, redundancy }: ChainRequest,
  defaults: KeySettings['failoverDefaults'],
): { entries: ChainEntry[]; options: ChainOptions } {
  const options: ChainOptions = redundancy ?? {}
  if (models) return { entries: models, options }
  const named = { model: model as string }
  if (fallbacks) return { entries: [named, ...fallbacks], options }
  const at = defaults?.models.indexOf(named.model) ?? -1
  if (!defaults || at < 0) return { entries: [named], options }
  return {
    entries: defaults.models.slice(at).map((name) => ({ model: name })),
    options: {
      timeout_ms: options.timeout_ms ?? defaults.timeout_ms,
      first_token_timeout_ms: options.first_token_timeout_ms ?? defaults.first_token_timeout_ms,
      on: options.on ?? defaults.on,
    },
  }
}

function usableModel(
  modelId: string,
  registry: ProviderRegistry,
  allowedModels: readonly string[],
): Pick<Attempt, 'provider' | 'model' | 'location'> & { timeouts?: ModelTimeouts | undefined } {
  const found = registry.find(modelId)
  if (found && allowsModel(allowedModels, modelId)) return found
  const shown = modelId.slice(0, 200)
  const usable = registry.describe(allowedModels).join(', ') || 'none'
  if (found) {
    throw new GatewayError(
      'INSUFFICIENT_PERMISSIONS',
      `This key may not use the model "${shown}". Allowed models: ${usable}.`,
    )
  }
  throw invalidField(
    'model',
    `The model "${shown}" is not configured. Configured models: ${usable}. To add more, see docs/configuration.md.`,
    modelId,
  )
}
