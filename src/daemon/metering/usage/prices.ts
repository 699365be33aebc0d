import { LRUCache } from 'lru-cache'
import type { EndpointConfig, PriceConfig, ProviderConfig, TierPriceConfig } from '../../models/config.ts'
import type { TokenUsage } from '../../models/provider.ts'
import { WELL_KNOWN_PROVIDERS } from '../../models/well-known-providers.ts'
import {
  type AudioPrice,
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

/** Integer pico-dollars per token. In this unit, every list price is exact. */
export type TokenPrices = {
  readonly input: number
  readonly output: number
  readonly cacheRead: number
  readonly cacheWrite: number
  /** A write with a cache lifetime of an hour. */
  readonly cacheWriteHour: number
}

/** The price of a model, in points per answer and pico-dollars per token. */
export type Price = TokenPrices & {
  readonly points: number
  /** The prices of other tiers of service than the standard one, as far as they are known. */
  readonly tiers: Readonly<Record<string, TokenPrices>>
  /** Pico-dollars per web search. Undefined: unknown. */
  readonly webSearch: number | undefined
  /** Pico-dollars per token of audio. They apply to all tiers of service. Undefined: unknown. */
  readonly audio: { readonly input: number; readonly output: number } | undefined
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
/** Converts dollars per thousand searches to pico-dollars per search. */
const PICOS_PER_SEARCH = 1_000_000_000
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
  const webSearch = table?.prices?.webSearch
  if (own) return ofConfig(own, listed?.bucket ?? 'standard', webSearch)
  const { price, bucket, isKnown, tiers, audio } = listed ?? {
    ...{ price: table?.prices?.unlisted ?? UNKNOWN_PRICE, bucket: 'premium', isKnown: false, tiers: {} },
    audio: undefined,
  }
  return {
    ...{ ...ofList(price), points: POINTS[bucket as Bucket], tiers, isKnown },
    ...{ webSearch: toSearchPrice(webSearch), audio: audio && toAudioPrice(audio) },
  }
}

const toAudioPrice = ([input, output]: AudioPrice): NonNullable<Price['audio']> => ({
  input: Math.round(input * PICOS_PER_TOKEN),
  output: Math.round(output * PICOS_PER_TOKEN),
})

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

type Listed = {
  price: ListPrice
  bucket: Bucket
  isKnown: boolean
  tiers: Price['tiers']
  audio: AudioPrice | undefined
}

function findListed(provider: string, model: string): Listed | undefined {
  const makers = ownEntry(RESOLD, provider)
  if (makers) {
    const slash = model.indexOf('/')
    const maker = ownEntry(makers, model.slice(0, Math.max(0, slash)))
    return maker === undefined ? undefined : findListed(maker, model.slice(slash + 1))
  }
  const { models = {}, editions = [], tiers = {}, audio = {} } = PRICE_TABLE[provider] ?? {}
  let isKnown = false
  for (const { name, isDated } of namesOf(plainName(provider, model))) {
    isKnown ||= editions.includes(name)
    for (const bucket of Object.keys(models) as Bucket[]) {
      const list = models[bucket] ?? {}
      const price = ownEntry(list, name) ?? ownEntry(list, '*')
      if (!price) continue
      return {
        ...{ price, bucket, isKnown: isKnown || !isDated },
        ...{ tiers: tiersOf(tiers, name), audio: ownEntry(audio, name) },
      }
    }
  }
  return undefined
}

const tiersOf = (tiers: NonNullable<ProviderPrices['tiers']>, name: string): Price['tiers'] =>
  Object.fromEntries(
    Object.entries(tiers).flatMap(([tier, prices]) => {
      const price = ownEntry(prices, name)
      return price ? [[tier, ofList(price)]] : []
    }),
  )

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

function ofList([
  input,
  output,
  cacheRead = input,
  cacheWrite = input,
  cacheWriteHour = cacheWrite,
]: ListPrice): TokenPrices {
  const picos = (dollars: number) => Math.round(dollars * PICOS_PER_TOKEN)
  return {
    input: picos(input),
    output: picos(output),
    cacheRead: picos(cacheRead),
    cacheWrite: picos(cacheWrite),
    cacheWriteHour: picos(cacheWriteHour),
  }
}

const toSearchPrice = (dollars: number | undefined): number | undefined =>
  dollars === undefined ? undefined : Math.round(dollars * PICOS_PER_SEARCH)

/** @param listed the list price of a web search. The prices of a model do not change it */
function ofConfig(
  { points, tiers = {}, webSearch, audio, ...own }: PriceConfig,
  bucket: Bucket,
  listed?: number,
): Price {
  const toPrices = ({ input, output, cacheRead, cacheWrite, cacheWriteHour }: TierPriceConfig): TokenPrices =>
    ofList([input, output, cacheRead, cacheWrite, cacheWriteHour] as ListPrice)
  return {
    ...toPrices(own),
    points: points ?? POINTS[bucket],
    tiers: Object.fromEntries(Object.entries(tiers).map(([tier, prices]) => [tier, toPrices(prices)])),
    webSearch: toSearchPrice(webSearch ?? listed),
    audio: audio && toAudioPrice(audio),
    isKnown: true,
  }
}

/** Returns the prices of a tier. The standard prices apply if those of the tier are unknown. */
const pricesIn = (price: Price, tier: string | undefined): TokenPrices =>
  (tier === undefined ? undefined : ownEntry(price.tiers, tier)) ?? price

/** Returns what of a request has no known price: its model, its tier of service, its audio, or its web searches. */
export function unknownIn(
  price: Price,
  {
    tier,
    webSearches = 0,
    audioInputTokens = 0,
    audioOutputTokens = 0,
  }: Pick<TokenUsage, 'tier' | 'webSearches' | 'audioInputTokens' | 'audioOutputTokens'>,
): 'model' | 'tier' | 'audio' | 'web search' | undefined {
  if (!price.isKnown) return 'model'
  if (tier !== undefined && !Object.hasOwn(price.tiers, tier)) return 'tier'
  if (audioInputTokens + audioOutputTokens > 0 && !price.audio) return 'audio'
  return webSearches > 0 && price.webSearch === undefined ? 'web search' : undefined
}

/** Returns a price that neither the standard prices nor those of the tier exceed, for reservations. */
export function dearest(price: Price, tier: string | undefined): Price {
  const other = pricesIn(price, tier)
  if (other === price) return price
  const higher = (name: keyof TokenPrices) => Math.max(price[name], other[name])
  return {
    ...price,
    input: higher('input'),
    output: higher('output'),
    cacheRead: higher('cacheRead'),
    cacheWrite: higher('cacheWrite'),
    cacheWriteHour: higher('cacheWriteHour'),
  }
}

/**
 * Returns the cost of these tokens and web searches in nano-dollars. The total cost of a request is rounded once, half
 * up. Output tokens include reasoning tokens. Input tokens include cache reads and cache writes. If the
 * price of audio is unknown, tokens of audio cost as much as tokens of text.
 */
export function costOf(model: Price, usage: TokenUsage): number {
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, cacheWriteHourTokens = 0 } = usage
  const { tier, webSearches = 0, audioInputTokens = 0, audioOutputTokens = 0 } = usage
  const price = pricesIn(model, tier)
  const { input: audioInput, output: audioOutput } = model.audio ?? price
  const fresh = Math.max(0, inputTokens - cacheReadTokens - cacheWriteTokens)
  // Providers do not cache audio.
  const heard = Math.min(audioInputTokens, fresh)
  const picos =
    heard * audioInput +
    (fresh - heard) * price.input +
    cacheReadTokens * price.cacheRead +
    (cacheWriteTokens - cacheWriteHourTokens) * price.cacheWrite +
    cacheWriteHourTokens * price.cacheWriteHour +
    audioOutputTokens * audioOutput +
    (outputTokens - audioOutputTokens) * price.output +
    webSearches * (model.webSearch ?? 0)
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
  const output = dearestOutput(price)
  if (output === 0) return undefined
  const picosLeft = nanos * PICOS_PER_NANO - inputTokens * dearestInput(price, cachesForAnHour)
  return Math.max(0, Math.floor(picosLeft / output))
}

const dearestInput = (price: Price, cachesForAnHour: boolean): number =>
  Math.max(
    ...[price.input, price.cacheRead, price.cacheWrite, cachesForAnHour ? price.cacheWriteHour : 0],
    price.audio?.input ?? 0,
  )

const dearestOutput = ({ output, audio }: Price): number => Math.max(output, audio?.output ?? 0)

/**
 * Returns the maximum cost of these tokens in nano-dollars, regardless of caching. `cachesForAnHour`: whether the
 * request asks for cache entries with a lifetime of an hour.
 */
export const highestCost = (price: Price, inputTokens: number, outputTokens: number, cachesForAnHour = false): number =>
  Math.min(
    Number.MAX_SAFE_INTEGER,
    Math.ceil(
      (inputTokens * dearestInput(price, cachesForAnHour) + outputTokens * dearestOutput(price)) / PICOS_PER_NANO,
    ),
  )
