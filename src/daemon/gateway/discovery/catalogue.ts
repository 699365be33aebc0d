// The models that a key may request, with the facts that clients need to choose one.
import type { z } from 'zod'
import type { ModelDetails } from '../../../shared/wire/discovery.ts'
import type { KeySettings } from '../../../shared/wire/keys.ts'
import type { Price, PriceList, TokenPrices } from '../../metering/usage/prices.ts'
import type { Modality, ModelFacts, ProviderConfig } from '../../models/config.ts'
import { factsOf } from '../../models/model-facts.ts'
import type { ModelNames, Resolved } from '../../models/names.ts'
import { outputLimitOf } from '../../models/output-limits.ts'
import type { Target } from '../../models/targets.ts'
import type { Caller } from '../../platform/http/caller.ts'
import type { PolicyCatalogue, TenantPolicies } from '../../safety/policies/policies.ts'
import type { RequestLimits } from '../config.ts'
import { withinList } from '../governed/chain.ts'

type Details = z.infer<typeof ModelDetails>

/** `owner` is the provider. The owner of a name of the configuration is GATEWAY. */
export type ListedModel = { id: string; owner: string; details: Details }

/** The owner of names that the configuration defines. */
export const GATEWAY = 'gateway'

export type Catalogue = {
  /** Lists names of the configuration, then model ids, then `<provider>/*` for providers that accept any name. */
  patterns(caller: Caller): Promise<ListedModel[]>
  /** Like `patterns`, but lists the known models of a provider that accepts any name instead of the pattern. */
  models(caller: Caller): Promise<ListedModel[]>
  /** Finds a model by any text that a request may contain. Returns undefined if this key may not use the model. */
  find(requested: string, caller: Caller): Promise<ListedModel | undefined>
}

type CatalogueDeps = {
  names: ModelNames
  policies: PolicyCatalogue
  prices: PriceList
  limits: Pick<RequestLimits, 'outputTokens'>
}

export function createCatalogue(
  providers: readonly ProviderConfig[],
  { names, policies, prices, limits }: CatalogueDeps,
): Catalogue {
  const configured = new Map(providers.map(({ name, facts }) => [name, facts]))

  const ofTarget = ({ modelId, model }: Pick<Target, 'modelId' | 'model'>): Known => {
    const price = prices.priceOf(modelId)
    return {
      facts: { ...factsOf(model), ...configured.get(ownerOf(modelId))?.[model] },
      outputTokens: limits.outputTokens[modelId] ?? outputLimitOf(model),
      price: price.isKnown ? price : undefined,
    }
  }

  const toListed = (modelId: string): ListedModel => {
    const model = modelId.slice(modelId.indexOf('/') + 1)
    const owner = ownerOf(modelId)
    return { id: modelId, owner, details: isPattern(modelId) ? {} : toDetails([ofTarget({ modelId, model })]) }
  }

  /** Lists a requested text if it stands for exactly one model or name that this key may use. */
  function toRequested(requested: string, settings: KeySettings, own: TenantPolicies): ListedModel[] {
    const [only, ...others] = names.resolve(requested).flatMap((one) => usable(one, settings, own))
    if (!only || others.length > 0) return []
    const targets = only.tiers.flat()
    const owners = new Set(targets.map(({ modelId }) => ownerOf(modelId)))
    const [owner = GATEWAY] = only.name === undefined && owners.size === 1 ? owners : []
    return [{ id: requested, owner, details: toDetails(targets.map(ofTarget)) }]
  }

  const namesFor = (settings: KeySettings, own: TenantPolicies): ListedModel[] =>
    names.names.flatMap((name) => toRequested(name, settings, own))

  return {
    async patterns({ tenantId, settings }) {
      const own = await policies.of(tenantId)
      return [...namesFor(settings, own), ...own.offeredModels(settings).map(toListed)]
    },
    async models({ tenantId, settings }) {
      const own = await policies.of(tenantId)
      const ids = own.offeredModels(settings).flatMap((id) => {
        if (!isPattern(id)) return [id]
        const owner = ownerOf(id)
        const known = prices.modelsOf(owner).map((model) => `${owner}/${model}`)
        return known.filter((one) => own.offersModel(one, settings))
      })
      return [...namesFor(settings, own), ...[...new Set(ids)].map(toListed)]
    },
    async find(requested, { tenantId, settings }) {
      if (isPattern(requested)) return undefined
      return toRequested(requested, settings, await policies.of(tenantId))[0]
    },
  }
}

/** Returns what a key and its default policy leave of the targets. */
function usable(resolved: Resolved, settings: KeySettings, own: TenantPolicies): Resolved[] {
  // The key's list is already applied. It may contain the name instead of its models.
  const anyModel = { ...settings, allowedModels: [] }
  return withinList(resolved, settings.allowedModels).flatMap((one) => {
    const left = one.tiers.map((tier) => tier.filter(({ modelId }) => own.offersModel(modelId, anyModel)))
    return left.some((tier) => tier.length > 0) ? [{ ...one, tiers: left }] : []
  })
}

const ownerOf = (modelId: string): string => modelId.slice(0, modelId.indexOf('/'))
const isPattern = (id: string): boolean => id.endsWith('/*')

/** What is known about one target. */
type Known = { facts: ModelFacts; outputTokens: number | undefined; price: Price | undefined }

/**
 * Returns what holds for every target of a model or name: the lowest limits, the modalities of all, and the highest
 * prices. A member is absent if it is unknown for one of the targets.
 */
function toDetails(targets: readonly Known[]): Details {
  const contextTokens = ofAll(targets.map(({ facts }) => facts.contextTokens))
  const outputTokens = ofAll(targets.map((target) => target.outputTokens))
  const input = ofAll(targets.map(({ facts }) => facts.input))
  const output = ofAll(targets.map(({ facts }) => facts.output))
  const all = ofAll(targets.map(({ price }) => price))
  return {
    ...(contextTokens && { context_length: Math.min(...contextTokens) }),
    ...(outputTokens && { max_output_tokens: Math.min(...outputTokens) }),
    ...(input && output && { modalities: { input: inAll(input), output: inAll(output) } }),
    ...(all && { prices: toPrices(all) }),
  }
}

/** Returns the values if each of them is known. */
function ofAll<T>(values: readonly (T | undefined)[]): T[] | undefined {
  const known = values.filter((value) => value !== undefined)
  return known.length === values.length && known.length > 0 ? known : undefined
}

const inAll = ([first = [], ...others]: readonly (readonly Modality[])[]): Modality[] =>
  first.filter((modality) => others.every((other) => other.includes(modality)))

/** Converts pico-dollars per token to dollars per million tokens. */
const PICOS_PER_DOLLAR = 1_000_000

function toPrices(all: readonly Price[]): NonNullable<Details['prices']> {
  const highest = (member: keyof TokenPrices | 'points') => Math.max(...all.map((price) => price[member]))
  const dollars = (member: keyof TokenPrices) => highest(member) / PICOS_PER_DOLLAR
  return {
    input: dollars('input'),
    output: dollars('output'),
    cache_read: dollars('cacheRead'),
    cache_write: dollars('cacheWrite'),
    cache_write_1h: dollars('cacheWriteHour'),
    points: highest('points'),
  }
}
