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

/** What a model costs: whole pico-dollars for each token, so that every list price is exact; points for each answer. */
export type Price = {
  readonly input: number
  readonly output: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly points: number
  /** False when nobody told the price and one was assumed, if only that an edition costs what its model does. */
  readonly isKnown: boolean
}

export type PriceList = {
  /** Of `<provider>/<model>`; never free because it is not known. */
  priceOf(modelId: string): Price
}

const PICOS_PER_NANO = 1_000
/** Dollars for a million tokens → pico-dollars for one. */
const PICOS_PER_TOKEN = 1_000_000
const PRICES_REMEMBERED = 10_000

/**
 * Prices of the configuration first, for the model and then for `*`; then those of the table; then an assumed one:
 * UNKNOWN_PRICE, or what the dearest model of the provider costs where that is more.
 */
export function createPriceList(configs: readonly ProviderConfig[]): PriceList {
  const providers = new Map(configs.map((config) => [config.name, config]))
  // Callers choose the names of models, so not all can be kept.
  const known = new LRUCache<string, Price>({ max: PRICES_REMEMBERED })
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
  }
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

/** A provider is known by the host it asks, else by its name, else by its kind where that is one company's. */
function tableOf(
  provider: string,
  config: ProviderConfig | undefined,
): { name: string; prices?: ProviderPrices } | undefined {
  const kind = config?.kind === 'openai' ? undefined : config?.kind
  for (const candidate of [config && hostOwner(config), provider, kind]) {
    if (candidate === undefined) continue
    const name = ownEntry(SAME_MODELS, candidate) ?? candidate
    const prices = ownEntry(PRICE_TABLE, name)
    // Somebody else's server is not free for being called as one of ours would be.
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

/** Bedrock puts a region and a maker before the name; resellers write the versions of Claude with a dot, some dates with @. */
function plainName(provider: string, model: string): string {
  if (provider === 'bedrock') return model.replace(/^(?:[a-z]+\.)?(?:anthropic|amazon|cohere)\./, '')
  return provider === 'anthropic' ? model.replaceAll('.', '-').replace('@', '-') : model
}

/** What tells editions of one model apart: `latest`, `preview`, Bedrock's `-v1:0`; and dates, with which prices may change. */
const EDITION = /-(?:latest|preview|exp|v\d+:\d+|(\d{2}-\d{2}|\d{3,4}|\d{8}|\d{4}-\d{2}-\d{2}))$/

/** The name, and the shorter ones it is an edition of; `isDated` is whether a date was left out. */
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
  [input, output, cacheRead = input, cacheWrite = input]: ListPrice,
  points: number,
  isKnown: boolean,
): Price {
  const [ofInput, ofOutput, ofRead, ofWrite] = [input, output, cacheRead, cacheWrite].map((dollars) =>
    Math.round(dollars * PICOS_PER_TOKEN),
  ) as [number, number, number, number]
  return { input: ofInput, output: ofOutput, cacheRead: ofRead, cacheWrite: ofWrite, points, isKnown }
}

const ofConfig = ({ input, output, cacheRead, cacheWrite, points }: PriceConfig, bucket: Bucket): Price =>
  ofList([input, output, cacheRead, cacheWrite] as ListPrice, points ?? POINTS[bucket], true)

/**
 * What these tokens cost, in nano-dollars. Exact but for one rounding, half up, of the whole request. Reasoning tokens are
 * among the output tokens; input tokens that are neither read from a cache nor written to one are fresh.
 */
export function costOf(
  price: Price,
  { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens }: TokenUsage,
): number {
  const fresh = Math.max(0, inputTokens - cacheReadTokens - cacheWriteTokens)
  const picos =
    fresh * price.input +
    cacheReadTokens * price.cacheRead +
    cacheWriteTokens * price.cacheWrite +
    outputTokens * price.output
  return Math.min(Number.MAX_SAFE_INTEGER, Math.round(picos / PICOS_PER_NANO))
}

/** How many output tokens so many nano-dollars cover after this input; undefined where output is free. */
export function coveredOutput(price: Price, inputTokens: number, nanos: number): number | undefined {
  if (price.output === 0) return undefined
  const picosLeft = nanos * PICOS_PER_NANO - inputTokens * dearestInput(price)
  return Math.max(0, Math.floor(picosLeft / price.output))
}

const dearestInput = (price: Price): number => Math.max(price.input, price.cacheRead, price.cacheWrite)

/** The most that so many tokens can cost, however they are counted: nano-dollars. */
export const highestCost = (price: Price, inputTokens: number, outputTokens: number): number =>
  Math.min(
    Number.MAX_SAFE_INTEGER,
    Math.ceil((inputTokens * dearestInput(price) + outputTokens * price.output) / PICOS_PER_NANO),
  )
