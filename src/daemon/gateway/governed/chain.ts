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
import type { ModelNames, Resolved } from '../../models/names.ts'
import type { ProviderCall } from '../../models/provider.ts'
import type { ProviderRegistry } from '../../models/registry.ts'
import { type Draw, inWeightedOrder, randomDraw, stickyDraw, type Target } from '../../models/targets.ts'
import type { MayCall } from '../../safety/policies/policies.ts'
import type { RequestLimits } from '../config.ts'

/** The models of a request. Contains at least `model` or `models`. */
export type ChainRequest = Partial<Pick<ChatRequest, 'model' | 'models' | 'fallback_models' | 'redundancy'>>

/** One target to try. */
export type Attempt = Omit<Target, 'weight'> & {
  /** The entry of the request that stands for the target: a model id, or a name. */
  requested: string
  /**
   * The group of the targets that share the time limits of one attempt: targets of the same entry and priority.
   * Undefined if the entry has only this target.
   */
  pool: Pool | undefined
  timeouts: ProviderCall['timeouts']
}

/** Compared by identity. All pools of an entry have the same `entry`. */
export type Pool = { readonly entry: object }

/** The targets to try, in order. */
export type Chain = {
  attempts: [Attempt, ...Attempt[]]
  /** The first model of the request, as requested. */
  requestedModel: string
  /** The failure reasons after which the next model is tried. */
  triggers: ReadonlySet<FailoverTrigger>
  /** The point after which a streamed answer no longer fails over to another model. */
  commit: CommitPoint
}

/** How the models of a request become targets. */
export type ChainTerms = {
  stream: boolean
  limits: Pick<RequestLimits, 'attemptMs' | 'firstTokenMs' | 'silenceMs'>
  names: ModelNames
  /** The client must request a model with its provider, or by a name of the configuration. */
  isExact?: boolean | undefined
  /** Only targets with the same name at their providers are used, because the results of models are not comparable. */
  isOneModel?: boolean | undefined
  /** Requests with the same text prefer the same target. Undefined: targets are chosen at random. */
  stickyText?: (() => string | undefined) | undefined
  /** Targets for which this is false are left out, unless none of their entry remains. */
  mayCall?: MayCall | undefined
}

type Timeouts = { timeout_ms?: number | undefined; first_token_timeout_ms?: number | undefined }
/** `isDefault`: the entry is from the settings of the key, so the client did not write it. */
type ChainEntry = { model: string; isDefault?: true } & Timeouts
/** The defaults for all entries. An entry may override them. */
type ChainOptions = Timeouts & { on?: FailoverTrigger[] | undefined }

const ALL_TRIGGERS: ReadonlySet<FailoverTrigger> = new Set(FAILOVER_TRIGGERS)

/**
 * Builds the chain of a request from `models`, or from `model` and `fallback_models`, or from `model` and its
 * successors in the key's `failoverDefaults`. The first value that is set takes precedence. Duplicates are removed.
 * A name becomes its targets, by priority and then in weighted order. Targets that the key must not use are left out.
 * Precedence of timeouts: the entry, `redundancy`, the key, the model, its provider, all providers. By default, a stream has a limit on silence
 * but no total timeout. A stream that is buffered until complete has both.
 * @throws VALIDATION_ERROR (`Invalid model`) listing the configured models; INSUFFICIENT_PERMISSIONS if the key is not
 * allowed to use every model of the chain
 */
export function planChain(
  request: ChainRequest,
  registry: Pick<ProviderRegistry, 'describe'>,
  settings: Pick<KeySettings, 'allowedModels' | 'failoverDefaults'>,
  terms: ChainTerms,
): Chain {
  const { entries, options } = chainOf(request, settings.failoverDefaults)
  const commit = request.redundancy?.commit ?? 'first_token'
  // The client sees no progress of a buffered stream, so a total timeout applies.
  const isLive = terms.stream && commit !== 'complete'
  const distinct =
    entries.length === 1
      ? entries
      : entries.filter(({ model }, at) => entries.findIndex((entry) => entry.model === model) === at)
  let draw: Draw | undefined
  const attempts: Attempt[] = []
  for (const entry of distinct) {
    const own = entry.isDefault ? { ...terms, isExact: false } : terms
    const { tiers } = usableModel(entry.model, registry, settings.allowedModels, own)
    const pooled = tiers.length > 1 || (tiers[0]?.length ?? 0) > 1
    for (const tier of tiers) {
      const isLast = entry === distinct.at(-1) && tier === tiers.at(-1)
      const pool = pooled ? { entry } : undefined
      if (tier.length > 1) draw ??= drawOf(terms)
      for (const target of draw ? inWeightedOrder(tier, draw) : tier) {
        // Lists each member, because every later read of a copy made by rest and spread is slow.
        const { modelId, provider, model, location, slot } = target
        const own = target.timeouts ?? NO_TIMEOUTS
        const timeouts = timeoutsOf(entry, options, { isLast, isLive, own, limits: terms.limits })
        attempts.push({ modelId, provider, model, location, slot, requested: entry.model, pool, timeouts })
      }
    }
  }
  const triggers = options.on ? new Set(options.on) : ALL_TRIGGERS
  const requestedModel = (distinct[0] as ChainEntry).model
  return { attempts: attempts as Chain['attempts'], requestedModel, triggers, commit }
}

/** Whether a chain has targets of a name, so that a policy may leave some of them out. */
export const hasPools = ({ attempts }: Chain): boolean => attempts.some(({ pool }) => pool !== undefined)

/** The models of a chain without duplicates. Several keys of a provider have the same model. */
export const modelsOf = ({ attempts }: Chain): readonly Attempt[] =>
  attempts.length === 1
    ? attempts
    : attempts.filter(({ modelId }, at) => attempts.findIndex((other) => other.modelId === modelId) === at)

function drawOf({ stickyText }: ChainTerms): Draw {
  const text = stickyText?.()
  return text === undefined ? randomDraw : stickyDraw(text)
}

function timeoutsOf(
  entry: Timeouts,
  options: Timeouts,
  {
    isLast,
    isLive,
    own,
    limits,
  }: { isLast: boolean; isLive: boolean; own: ModelTimeouts; limits: ChainTerms['limits'] },
): ProviderCall['timeouts'] {
  // The last model has no fallback, and some models reason for a long time without output. An early timeout would
  // lose the answer without any benefit.
  const patience = isLast ? 'last' : 'default'
  const wholeMs =
    own.attemptMs ?? limits.attemptMs ?? (isLive ? Number.POSITIVE_INFINITY : ATTEMPT_TIMEOUT_MS[patience])
  const attemptMs = within(ATTEMPT_TIMEOUT_MS, entry.timeout_ms ?? options.timeout_ms) ?? wholeMs
  const firstMs = own.firstTokenMs ?? limits.firstTokenMs ?? Math.min(attemptMs, FIRST_TOKEN_TIMEOUT_MS[patience])
  const askedMs = entry.first_token_timeout_ms ?? options.first_token_timeout_ms
  const firstTokenMs = within(FIRST_TOKEN_TIMEOUT_MS, askedMs) ?? firstMs
  return { attemptMs, firstTokenMs, stallMs: own.silenceMs ?? limits.silenceMs }
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
    entries: [named, ...defaults.models.slice(at + 1).map((model) => ({ model, isDefault: true as const }))],
    options: {
      timeout_ms: options.timeout_ms ?? defaults.timeout_ms,
      first_token_timeout_ms: options.first_token_timeout_ms ?? defaults.first_token_timeout_ms,
      on: options.on ?? defaults.on,
    },
  }
}

/** Returns the targets of a requested model that the key may use. */
function usableModel(
  requested: string,
  registry: Pick<ProviderRegistry, 'describe'>,
  allowedModels: readonly string[],
  terms: ChainTerms,
): Resolved {
  const find = (model: string, isExact?: boolean) => {
    const resolved = terms.names.resolve(model, isExact)
    return terms.isOneModel ? resolved.flatMap(ofFirstModel) : resolved
  }
  const found = find(requested, terms.isExact)
  const allowed = allowedModels.length === 0 ? found : found.flatMap((one) => withinList(one, allowedModels))
  const [first] = allowed
  if (first && allowed.length === 1) return terms.mayCall ? withinPolicy(first, terms.mayCall) : first
  const shown = requested.slice(0, SHOWN_CHARS)
  if (first) {
    const ids = allowed.map(({ tiers }) => tiers[0]?.[0]?.modelId).join(', ')
    throw invalidField('model', `Several providers have the model "${shown}". Name one of: ${ids}.`, requested)
  }
  const names = terms.names.names.filter((name) => find(name).some((one) => withinList(one, allowedModels).length > 0))
  const usable = [...names, ...registry.describe(allowedModels)].join(', ') || 'none'
  if (found.length > 0) {
    throw new GatewayError(
      'INSUFFICIENT_PERMISSIONS',
      `This key may not use the model "${shown}". Allowed models: ${usable}.`,
    )
  }
  throw invalidField(
    'model',
    `The model "${shown}" is not configured. Configured models: ${usable}. To add more, see docs/configuration.md.`,
    requested,
  )
}

const SHOWN_CHARS = 200

/**
 * Returns the targets that a key may use, or nothing if it may use none. A key may use a target if its list contains the
 * model or the name by which the model was requested.
 */
export function withinList(resolved: Resolved, allowedModels: readonly string[]): Resolved[] {
  const { name, tiers } = resolved
  if (allowedModels.length === 0 || (name !== undefined && allowedModels.includes(name))) return [resolved]
  const within = filtered(tiers, ({ modelId }) => allowsModel(allowedModels, modelId))
  return within.length > 0 ? [{ ...resolved, tiers: within }] : []
}

/** Leaves out targets that the policy does not allow. If none remains, the policy rejects them all. */
function withinPolicy(resolved: Resolved, mayCall: MayCall): Resolved {
  const tiers = filtered(resolved.tiers, mayCall)
  return tiers.length > 0 ? { ...resolved, tiers } : resolved
}

/** Keeps the targets with the first model's name at their provider. Returns nothing if all of them are absent now. */
function ofFirstModel(resolved: Resolved): Resolved[] {
  const tiers = filtered(resolved.tiers, ({ model }) => model === resolved.firstModel)
  return tiers.length > 0 ? [{ ...resolved, tiers }] : []
}

const filtered = (tiers: Resolved['tiers'], isKept: (target: Target) => boolean): Resolved['tiers'] =>
  tiers.map((tier) => tier.filter(isKept)).filter((tier) => tier.length > 0)
