// Finds the provider of a model id.
import type { Pool } from 'undici'
import { allowsModel } from '../../shared/allowlists.ts'
import type { Clock } from '../../shared/time.ts'
import type { Log } from '../platform/log.ts'
import type { ResolveHost } from '../platform/network/name-cache.ts'
import { locationsOf } from './call-location.ts'
import type { ModelTimeouts, ProviderConfig, VertexConfig } from './config.ts'
import { providerOnDemand } from './on-demand.ts'
import { ORIGIN as GOOGLE_ORIGIN } from './part-signature.ts'
import { openPool, type ProviderDeps } from './pool.ts'
import type { CallLocation, Provider } from './provider.ts'
import { leastThinkingTokens } from './providers/anthropic/thinking-models.ts'
import { droppedOnBedrock, supportsOnBedrock } from './providers/bedrock/supported.ts'
import { droppedByCohere } from './providers/cohere/supported.ts'
import { droppedByGoogle } from './providers/google/supported.ts'
import { azureProvider, openAiProvider } from './providers/openai/provider.ts'
import { type ProxySettings, proxyFor } from './proxy.ts'

export type FoundModel = {
  /** If the provider has several keys, it uses the first key here. */
  provider: Provider
  /** The model's name at the provider. */
  model: string
  location: CallLocation
  /** The model's own time limits. */
  timeouts?: ModelTimeouts
  /** The provider with each of its keys. Absent if it has at most one key. */
  keys?: readonly WeightedKey[]
}

type WeightedKey = { provider: Provider; weight: number }

export type ProviderRegistry = {
  /**
   * For a model id `<provider>/<model>`, finds the provider, the model's name at the provider, the location of the
   * model's calls, and its own time limits. Returns undefined if the model is not offered.
   */
  find(modelId: string): FoundModel | undefined
  /**
   * Lists the model ids that a key with this allowlist may request. Without an allowlist, lists the ids that any key
   * may request. `<provider>/*` means that the provider accepts any name. If the allowlist names single models of this
   * provider, these models are listed instead.
   */
  describe(allowedModels?: readonly string[]): string[]
  /** The connections to the configured providers. `waiting` counts calls that wait for a connection. */
  sockets(): readonly { provider: string; busy: number; free: number; waiting: number }[]
  close(): Promise<void>
}

/**
 * The location of discovered servers. All discovered servers run on this machine. A server may forward calls to an
 * unknown location.
 */
const LOOPBACK: CallLocation = { host: '127.0.0.1', region: undefined }

const NOTHING_FOUND: ReadonlyMap<string, Provider> = new Map()

/**
 * Finds the built-in and configured providers by name. Other names are looked up in `found`, the servers that are
 * currently discovered. The registry does not close providers.
 * @throws Error if two providers share a name, or a configured `local` provider is not built in.
 */
export function createProviderRegistry(
  configs: readonly ProviderConfig[],
  {
    clock,
    log,
    resolve,
    proxies = {},
    builtIn,
    found = NOTHING_FOUND,
  }: {
    clock: Clock
    log?: Log
    /** Resolves the names of the providers' servers. */
    resolve?: ResolveHost
    /** The proxies for providers without their own setting. */
    proxies?: ProxySettings | undefined
    builtIn: readonly Provider[]
    found?: ReadonlyMap<string, Provider>
  },
): ProviderRegistry {
  const providers = new Map<string, Provider>(builtIn.map((provider) => [provider.name, provider]))
  const keysOf = new Map<string, WeightedKey[]>()
  const locations = new Map<string, (model: string) => CallLocation>(builtIn.map(({ name }) => [name, () => 'here']))
  const timeouts = new Map<string, NonNullable<ProviderConfig['timeouts']>>()
  const pools: { provider: string; pool: Pool }[] = []
  for (const config of configs) {
    if (config.timeouts) timeouts.set(config.name, config.timeouts)
    if (config.kind === 'local' && providers.has(config.name)) continue
    if (providers.has(config.name)) throw new Error(`provider "${config.name}" is configured twice`)
    const { ca, proxy } = config
    const connect = (url: string | URL) => {
      const pool = openPool(url, {
        resolve,
        ca,
        proxy: proxy === undefined ? proxyFor(new URL(url), proxies) : (proxy ?? undefined),
      })
      pools.push({ provider: config.name, pool })
      return pool
    }
    const [first, ...others] = withEachKey(config).map(({ config: one, weight }) => ({
      provider: createProvider(one, { clock, connect }),
      weight,
    })) as [WeightedKey, ...WeightedKey[]]
    providers.set(config.name, first.provider)
    if (others.length > 0) keysOf.set(config.name, [first, ...others])
    locations.set(config.name, locationsOf(config))
  }

  const describe = (allowedModels: readonly string[] = []) =>
    [...providers.values(), ...[...found.values()].filter(({ name }) => !providers.has(name))].flatMap((provider) =>
      usableIds(provider, allowedModels),
    )
  log?.info({ models: describe() }, 'providers ready')

  return {
    describe,
    find(modelId) {
      const slash = modelId.indexOf('/')
      const name = modelId.slice(0, Math.max(0, slash))
      const provider = providers.get(name) ?? found.get(name)
      const model = modelId.slice(slash + 1)
      if (!provider || model === '' || provider.models?.includes(model) === false) return undefined
      const location = locations.get(name)?.(model) ?? LOOPBACK
      const [keys, own] = [keysOf.get(name), timeouts.get(name)]
      return { provider, model, location, ...(keys && { keys }), ...(own && { timeouts: timeoutsOf(own, model) }) }
    },
    sockets: () =>
      pools.map(({ provider, pool: { stats } }) => ({
        provider,
        busy: stats.connected - stats.free,
        free: stats.free,
        waiting: stats.queued,
      })),
    async close() {
      const others = [...keysOf.values()].flat().map(({ provider }) => provider)
      await Promise.all([...new Set([...providers.values(), ...others])].map((provider) => provider.close()))
    },
  }
}

/** Returns one configuration for each key of a provider. */
function withEachKey(config: ProviderConfig): { config: ProviderConfig; weight: number }[] {
  if (!('apiKeys' in config) || !config.apiKeys) return [{ config, weight: 1 }]
  return config.apiKeys.map(({ key, weight }) => ({ config: { ...config, apiKey: key }, weight }))
}

const embedding = (provider: () => Promise<Required<Pick<Provider, 'embed'>>>): Pick<Provider, 'embed'> => ({
  embed: async (call, signal) => (await provider()).embed(call, signal),
})

function createProvider(config: ProviderConfig, deps: ProviderDeps): Provider {
  switch (config.kind) {
    case 'local':
      throw new Error(`provider "${config.name}": only "local" may be of kind local`)
    case 'openai':
      return openAiProvider(config, deps)
    case 'azure':
      return azureProvider(config, deps)
    // Loaded on demand, so that start-up does not wait for code that many installations never use.
    case 'anthropic':
      return providerOnDemand(
        config,
        async () => {
          const { anthropicProvider } = await import('./providers/anthropic/provider.ts')
          return anthropicProvider(config, deps)
        },
        (provider) => ({
          ...counting(provider),
          origin: 'anthropic',
          needsMaxTokens: true,
          leastThinkingTokens,
        }),
      )
    case 'google':
      return providerOnDemand(
        config,
        async () => {
          const { googleProvider } = await import('./providers/google/provider.ts')
          return googleProvider(config, deps)
        },
        (provider) => ({
          ...embedding(provider),
          ...counting(provider),
          origin: GOOGLE_ORIGIN,
          drops: droppedByGoogle,
        }),
      )
    case 'cohere':
      return providerOnDemand(
        config,
        async () => {
          const { cohereProvider } = await import('./providers/cohere/provider.ts')
          return cohereProvider(config, deps)
        },
        (provider) => ({
          ...embedding(provider),
          rerank: async (call, signal) => (await provider()).rerank(call, signal),
          drops: droppedByCohere,
        }),
      )
    case 'vertex':
      return config.publisher === 'google' ? geminiOnVertex(config, deps) : claudeOnVertex(config, deps)
    case 'bedrock':
      return providerOnDemand(
        config,
        async () => {
          const { bedrockProvider } = await import('./providers/bedrock/provider.ts')
          return bedrockProvider(config, deps)
        },
        (provider) => ({
          ...embedding(provider),
          leastThinkingTokens,
          supports: supportsOnBedrock,
          drops: droppedOnBedrock,
        }),
      )
    default:
      return config satisfies never
  }
}

const counting = (provider: () => Promise<Required<Pick<Provider, 'countTokens'>>>): Pick<Provider, 'countTokens'> => ({
  countTokens: async (call, signal) => (await provider()).countTokens(call, signal),
})

const geminiOnVertex = (config: VertexConfig, deps: ProviderDeps): Provider =>
  providerOnDemand(
    config,
    async () => (await import('./providers/vertex/provider.ts')).geminiOnVertex(config, deps),
    (provider) => ({ ...embedding(provider), ...counting(provider), origin: GOOGLE_ORIGIN, drops: droppedByGoogle }),
  )

const claudeOnVertex = (config: VertexConfig, deps: ProviderDeps): Provider =>
  providerOnDemand(
    config,
    async () => (await import('./providers/vertex/provider.ts')).claudeOnVertex(config, deps),
    (provider) => ({ ...counting(provider), origin: 'anthropic', needsMaxTokens: true, leastThinkingTokens }),
  )

const timeoutsOf = (own: Readonly<Record<string, ModelTimeouts>>, model: string): ModelTimeouts => ({
  ...own['*'],
  ...(Object.hasOwn(own, model) ? own[model] : undefined),
})

function usableIds({ name, models }: Provider, allowed: readonly string[]): string[] {
  const any = `${name}/*`
  if (models) return models.map((model) => `${name}/${model}`).filter((id) => allowsModel(allowed, id))
  if (allowsModel(allowed, any)) return [any]
  return [...new Set(allowed)].filter((id) => id.startsWith(`${name}/`))
}
