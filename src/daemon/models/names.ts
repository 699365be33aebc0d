// Resolves the model of a request to its targets: a name of the configuration, a model id, or a model name without its
// provider.
import type { ModelName, NamedTarget } from './config.ts'
import type { ProviderRegistry } from './registry.ts'
import type { Target } from './targets.ts'

/** What a requested model stands for. */
export type Resolved = {
  /** The name of the configuration that was requested. Undefined for a model. */
  name: string | undefined
  /** The targets by priority, highest first. No list is empty. */
  tiers: readonly (readonly Target[])[]
  /** The provider's name of the first model, whether or not its target can be found now. */
  firstModel: string
}

export type ModelNames = {
  /** The names of the configuration. */
  names: readonly string[]
  /** The model of requests that name no model. Undefined: a request must name a model. */
  defaultModel: string | undefined
  /**
   * Returns everything that the requested text may stand for: nothing if it is unknown, and several entries if several
   * providers have a model with this name. A name of the configuration takes precedence.
   * @param isExact if true, a model must be requested with its provider
   */
  resolve(requested: string, isExact?: boolean): readonly Resolved[]
}

/** @param knows whether a provider without a list of models is known to have this model */
export function createModelNames(
  { models = [], defaultModel }: { models?: readonly ModelName[] | undefined; defaultModel?: string | undefined },
  providers: Pick<ProviderRegistry, 'find' | 'describe'>,
  knows: (provider: string, model: string) => boolean,
): ModelNames {
  const named = new Map(models.map(({ name, targets }) => [name, byPriority(targets)]))

  /** A server on this machine may be absent now, so a target may not be found. */
  function ofName(name: string, tiers: NamedTarget[][]): Resolved[] {
    const found = tiers.map((tier) =>
      tier.flatMap(({ modelId, weight }) => targetsOf(modelId, providers, weight) ?? []),
    )
    const present = found.filter((tier) => tier.length > 0)
    const firstModel = modelOf(tiers[0]?.[0]?.modelId ?? '')
    return present.length > 0 ? [{ name, tiers: present, firstModel }] : []
  }

  function ofId(modelId: string): Resolved[] {
    const targets = targetsOf(modelId, providers)
    return targets ? [{ name: undefined, tiers: [targets], firstModel: modelOf(modelId) }] : []
  }

  /** The ids of the models that a plain name may stand for. */
  function idsOf(plain: string): string[] {
    const offered = providers.describe()
    const open = offered.filter((id) => id.endsWith('/*')).map((id) => id.slice(0, -2))
    const listed = offered.filter((id) => modelOf(id) === plain)
    const having = [...listed, ...open.filter((provider) => knows(provider, plain)).map((one) => `${one}/${plain}`)]
    // If no provider is known to have the model, it can only be meant for a provider that accepts every name.
    return having.length > 0 ? having : open.map((provider) => `${provider}/${plain}`)
  }

  return {
    names: [...named.keys()],
    defaultModel,
    resolve(requested, isExact = false) {
      const tiers = named.get(requested)
      if (tiers) return ofName(requested, tiers)
      if (requested.includes('/')) return ofId(requested)
      return isExact ? [] : idsOf(requested).flatMap(ofId)
    },
  }
}

const modelOf = (modelId: string): string => modelId.slice(modelId.indexOf('/') + 1)

function byPriority(targets: readonly NamedTarget[]): NamedTarget[][] {
  const tiers = new Map<number, NamedTarget[]>()
  for (const target of [...targets].sort((a, b) => a.priority - b.priority))
    tiers.set(target.priority, [...(tiers.get(target.priority) ?? []), target])
  return [...tiers.values()]
}

/** Returns the targets of a model, one for each key of its provider. The keys share the weight of the model. */
function targetsOf(modelId: string, { find }: Pick<ProviderRegistry, 'find'>, weight = 1): Target[] | undefined {
  const found = find(modelId)
  if (!found) return undefined
  const { provider, model, location, timeouts, keys } = found
  if (!keys) return [{ modelId, provider, model, location, timeouts, weight, slot: modelId }]
  const sum = keys.reduce((total, key) => total + key.weight, 0)
  return keys.map((key, at) => ({
    modelId,
    provider: key.provider,
    model,
    location,
    timeouts,
    weight: (weight * key.weight) / sum,
    slot: `${modelId} key ${at + 1}`,
  }))
}
