// The models module: configured providers, discovered local providers, and the built-in provider.
import type { Clock } from '../../shared/time.ts'
import type { ProviderTest } from '../../shared/wire/providers.ts'
import type { Job } from '../platform/jobs/schedule.ts'
import type { Log } from '../platform/log.ts'
import type { ResolveHost } from '../platform/network/name-cache.ts'
import type { ProviderConfig, Scripts } from './config.ts'
import { createLocalServers } from './local-servers.ts'
import { type TestTerms, testProvider } from './probe.ts'
import type { Provider } from './provider.ts'
import { localProvider } from './providers/local/provider.ts'
import type { ProxySettings } from './proxy.ts'
import { type ConfiguredProviders, createProviderRegistry, type ProviderRegistry } from './registry.ts'

type ModelsConfig = {
  providers: readonly ProviderConfig[]
  scripts?: Scripts | undefined
  discoverLocal?: boolean | undefined
  proxies?: ProxySettings | undefined
}

export type ModelsRoom = {
  /** Finds models in the current configuration. A request that must keep its configuration uses `prepare` instead. */
  providers: ProviderRegistry
  /** Opens the providers of another configuration. Unchanged providers keep their connections. */
  prepare(config: ModelsConfig): PreparedModels
  /** See `testProvider`. */
  test: TestModels
  jobs: Job[]
  close(): Promise<void>
}

type TestModels = (
  name: string,
  model: string | undefined,
  terms: Omit<TestTerms, 'clock'>,
  signal: AbortSignal,
) => Promise<ProviderTest>

export type PreparedModels = {
  providers: ProviderRegistry
  /** The names of the providers that were removed, or whose address or key has changed. */
  replaced: readonly string[]
  /** Makes this configuration the current one. */
  use(): void
}

/** Opens every configured provider. With `discoverLocal`, a job searches for model servers on this machine. */
export function openModels(config: ModelsConfig, deps: { clock: Clock; log: Log; resolve: ResolveHost }): ModelsRoom {
  const localServers = createLocalServers([], deps)
  const { log, ...others } = deps
  const open = ({ providers, scripts, proxies }: ModelsConfig, known?: ConfiguredProviders['opened']) =>
    createProviderRegistry(providers, {
      ...others,
      ...(known === undefined && { log }),
      proxies,
      builtIn: [localProvider(scripts, deps.clock)],
      found: localServers.found,
      known,
    })
  const discover = ({ providers, discoverLocal }: ModelsConfig) =>
    localServers.configure(
      providers.map(({ name }) => name),
      discoverLocal === true,
    )
  let current = open(config)
  discover(config)
  // Requests that began earlier may still call a replaced provider, so it is closed only with the daemon. Its idle
  // connections close by themselves, and nothing else keeps it in memory.
  let replaced: WeakRef<Provider>[] = []

  return {
    providers: {
      find: (modelId) => current.find(modelId),
      describe: (allowedModels) => current.describe(allowedModels),
      close: () => current.close(),
    },
    prepare(next) {
      const providers = open(next, current.opened)
      const before = current.opened
      const gone = [...before].filter(([name, { keys }]) => providers.opened.get(name)?.keys !== keys)
      return {
        providers,
        replaced: gone.map(([name]) => name),
        use() {
          const ended = gone.flatMap(([, { keys }]) => keys.map(({ provider }) => new WeakRef(provider)))
          replaced = [...replaced.filter((one) => one.deref() !== undefined), ...ended]
          current = providers
          discover(next)
        },
      }
    },
    test: (name, model, terms, signal) =>
      testProvider({ name, model }, current, { ...terms, clock: deps.clock }, signal),
    jobs: [{ name: 'find-local-servers', cron: '* * * * *', run: localServers.look }],
    async close() {
      await current.close()
      await Promise.all(replaced.map(async (one) => one.deref()?.close()))
      await localServers.close()
    },
  }
}
