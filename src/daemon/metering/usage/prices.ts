import { LRUCache } from 'lru-cache'
import type { EndpointConfig, PriceConfig, ProviderConfig } from '../../models/config.ts'
import type { TokenUsage } from '../../models/provider.ts'
import { WELL_KNOWN_PROVIDERS } from '../../models/well-known-providers.ts'
import {
  type Bucket,
  type ListPrice,
  POINTS,
  PRICE_TABLE,
  type ProviderPrices,
  RESOLD,
  SAME_MODELS,
  UNKNOWN_PRICE,
} from './price-table.ts'
import { isPrivateHost } from './private-host.ts'

/**
 * The price of a model, in points per answer and integer pico-dollars per token. In this unit, every list price is
 * exact.
 */
export type Price = {
  readonly input: number
  readonly output: number
  readonly cacheRead: number
  readonly cacheWrite: number
  /** A write with a cache lifetime of an hour. */
  readonly cacheWriteHour: number
  readonly points: number
  /**
   * False if the price is assumed. If an edition is billed at the price of its model, the price also counts as assumed.
   */
  readonly isKnown: boolean
}

export type PriceList = {
  /** Returns the price of `<provider>/<model>`. Unknown models are never free. */
  priceOf(modelId: string): Price
  /** Returns the names of the models that have a price of their own at this provider. */
  modelsOf(provider: string): readonly string[]
  /** Whether this model, or an edition of it, has a price of its own at this provider. */
  hasOwnPrice(provider: string, model: string): boolean
}

const PICOS_PER_NANO = 1_000
/** Converts dollars per million tokens to pico-dollars per token. */
const PICOS_PER_TOKEN = 1_000_000
const PRICES_CACHED = 10_000

/**
 * Order of precedence: the configured price of the model, the configured price of `*`, the price table, an assumed
 * price. The assumed price is UNKNOWN_PRICE, or the price of the provider's most expensive model if that is higher.
 */
export function createPriceList(configs: readonly ProviderConfig[]): PriceList {
  const providers = new Map(configs.map((config) => [config.name, config]))
  // Callers choose model names, so the size of the cache must be bounded.
  const known = new LRUCache<string, Price>({ max: PRICES_CACHED })
  return {
    priceOf(modelId) {
      const price = known.get(modelId)
      if (price) return price
      const slash = modelId.indexOf('/')
      const name = modelId.slice(0, slash)
      const found = findPrice(name, modelId.slice(slash + 1), providers.get(name))
      known.set(modelId, found)
      return found
    },
    modelsOf(provider) {
      const config = providers.get(provider)
      return [...new Set([...Object.keys(config?.prices ?? {}), ...listOf(provider, config)])].filter(isOneModel)
    },
    hasOwnPrice(provider, model) {
      const config = providers.get(provider)
      const listed = listOf(provider, config)
      return (
        ownEntry(config?.prices ?? {}, model) !== undefined ||
        namesOf(plainName(provider, model)).some(({ name }) => isOneModel(name) && listed.includes(name))
      )
    },
  }
}

const isOneModel = (name: string): boolean => name !== '*'

/**
 * Returns the names of models in the price table. Azure, Bedrock and Vertex AI call the same models by other names:
 * deployments, ids, and dates after an @.
 */
function listOf(provider: string, config: ProviderConfig | undefined): string[] {
  if (config?.kind === 'azure' || config?.kind === 'bedrock') return []
  if (config?.kind === 'vertex' && config.publisher === 'anthropic') return []
  const table = tableOf(provider, config)
  return Object.values(table?.prices?.models ?? {}).flatMap((list) => Object.keys(list ?? {}))
}

function findPrice(provider: string, model: string, config: ProviderConfig | undefined): Price {
  const table = tableOf(provider, config)
  const listed = table && findListed(table.name, model)
  const own = config?.prices && (ownEntry(config.prices, model) ?? ownEntry(config.prices, '*'))
  if (own) return ofConfig(own, listed?.bucket ?? 'standard')
  if (listed) return ofList(listed.price, POINTS[listed.bucket], listed.isKnown)
  return ofList(table?.prices?.unlisted ?? UNKNOWN_PRICE, POINTS.premium, false)
}

const ownEntry = <T>(record: Readonly<Record<string, T>>, key: string): T | undefined =>
  Object.hasOwn(record, key) ? record[key] : undefined

/** Identifies a provider by its host, else by its name, else by its kind if only one company uses that kind. */
function tableOf(
  provider: string,
  config: ProviderConfig | undefined,
): { name: string; prices?: ProviderPrices } | undefined {
  const kind = config?.kind === 'vertex' ? config.publisher : config?.kind === 'openai' ? undefined : config?.kind
  for (const candidate of [config && hostOwner(config), provider, kind]) {
    if (candidate === undefined) continue
    const name = ownEntry(SAME_MODELS, candidate) ?? candidate
    const prices = ownEntry(PRICE_TABLE, name)
    // A public server is not free, even if it has the name of a local provider.
    if (prices?.models.free && config?.baseUrl !== undefined && !isPrivateHost(config.baseUrl)) continue
    if (prices) return { name, prices }
    if (ownEntry(RESOLD, name)) return { name }
  }
  return undefined
}

const HOST_OWNERS = new Map(
  Object.entries(WELL_KNOWN_PROVIDERS).flatMap(([name, { baseUrl, isLocal }]) =>
    baseUrl === undefined || isLocal ? [] : [[new URL(baseUrl).host, name] as const],
  ),
)

const hostOwner = ({ baseUrl }: Pick<EndpointConfig, 'name'> & { baseUrl: string | undefined }): string | undefined =>
  baseUrl === undefined ? undefined : HOST_OWNERS.get(new URL(baseUrl).host)

type Listed = { price: ListPrice; bucket: Bucket; isKnown: boolean }

function findListed(provider: string, model: string): Listed | undefined {
  const makers = ownEntry(RESOLD, provider)
  if (makers) {
    const slash = model.indexOf('/')
    const maker = ownEntry(makers, model.slice(0, Math.max(0, slash)))
    return maker === undefined ? undefined : findListed(maker, model.slice(slash + 1))
  }
  const { models = {}, editions = [] } = PRICE_TABLE[provider] ?? {}
  let isKnown = false
  for (const { name, isDated } of namesOf(plainName(provider, model))) {
    isKnown ||= editions.includes(name)
    for (const bucket of Object.keys(models) as Bucket[]) {
      const list = models[bucket] ?? {}
      const price = ownEntry(list, name) ?? ownEntry(list, '*')
      if (price) return { price, bucket, isKnown: isKnown || !isDated }
    }
  }
  return undefined
}

/**
 * Removes the prefixes for region and maker from Bedrock's model names. In the names of Claude models, replaces dots
 * and @ with hyphens, because resellers write versions with these characters.
 */
function plainName(provider: string, model: string): string {
  if (provider === 'bedrock') return model.replace(/^(?:[a-z]+\.)?(?:anthropic|amazon|cohere)\./, '')
  return provider === 'anthropic' ? model.replaceAll('.', '-').replace('@', '-') : model
}

/** The suffix of an edition: `latest`, `preview`, Bedrock's `-v1:0`, or a date. The price may differ between dates. */
const EDITION = /-(?:latest|preview|exp|v\d+:\d+|(\d{2}-\d{2}|\d{3,4}|\d{8}|\d{4}-\d{2}-\d{2}))$/

/** Returns the name, and its shorter forms without edition suffixes. `isDated`: whether a date was removed. */
function namesOf(model: string): { name: string; isDated: boolean }[] {
  const names = [{ name: model, isDated: false }]
  let [name, isDated] = [model, false]
  for (let found = EDITION.exec(name); found; found = EDITION.exec(name)) {
    name = name.slice(0, found.index)
    isDated ||= found[1] !== undefined
    names.push({ name, isDated })
  }
  return names
}

function ofList(
  [input, output, cacheRead = input, cacheWrite = input, cacheWriteHour = cacheWrite]: ListPrice,
  points: number,
  isKnown: boolean,
): Price {
  const picos = (dollars: number) => Math.round(dollars * PICOS_PER_TOKEN)
  return {
    input: picos(input),
    output: picos(output),
    cacheRead: picos(cacheRead),
    cacheWrite: picos(cacheWrite),
    cacheWriteHour: picos(cacheWriteHour),
    points,
    isKnown,
  }
}

const ofConfig = (
  { input, output, cacheRead, cacheWrite, cacheWriteHour, points }: PriceConfig,
  bucket: Bucket,
): Price => ofList([input, output, cacheRead, cacheWrite, cacheWriteHour] as ListPrice, points ?? POINTS[bucket], true)

/**
 * Returns the cost of these tokens in nano-dollars. The total cost of a request is rounded once, half up. Output tokens
 * include reasoning tokens. Input tokens include cache reads and cache writes.
 */
export function costOf(
  price: Price,
  { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, cacheWriteHourTokens = 0 }: TokenUsage,
): number {
  const fresh = Math.max(0, inputTokens - cacheReadTokens - cacheWriteTokens)
  const picos =
    fresh * price.input +
    cacheReadTokens * price.cacheRead +
    (cacheWriteTokens - cacheWriteHourTokens) * price.cacheWrite +
    cacheWriteHourTokens * price.cacheWriteHour +
    outputTokens * price.output
  return Math.min(Number.MAX_SAFE_INTEGER, Math.round(picos / PICOS_PER_NANO))
}

/**
 * Returns how many output tokens this amount of nano-dollars covers after the input is paid. Returns undefined if
 * output is free.
 */
export function coveredOutput(
  price: Price,
  inputTokens: number,
  nanos: number,
  cachesForAnHour = false,
): number | undefined {
  if (price.output === 0) return undefined
  const picosLeft = nanos * PICOS_PER_NANO - inputTokens * dearestInput(price, cachesForAnHour)
  return Math.max(0, Math.floor(picosLeft / price.output))
}

const dearestInput = (price: Price, cachesForAnHour: boolean): number =>
  Math.max(price.input, price.cacheRead, price.cacheWrite, cachesForAnHour ? price.cacheWriteHour : 0)

/**
 * Returns the maximum cost of these tokens in nano-dollars, regardless of caching. `cachesForAnHour`: whether the
 * request asks for cache entries with a lifetime of an hour.
 */
export const highestCost = (price: Price, inputTokens: number, outputTokens: number, cachesForAnHour = false): number =>
  Math.min(
    Number.MAX_SAFE_INTEGER,
    Math.ceil((inputTokens * dearestInput(price, cachesForAnHour) + outputTokens * price.output) / PICOS_PER_NANO),
  )
