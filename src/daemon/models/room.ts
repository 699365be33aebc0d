// The models module: configured providers, discovered local providers, and the built-in provider.
import type { Clock } from '../../shared/time.ts'
import type { Job } from '../platform/jobs/schedule.ts'
import type { Log } from '../platform/log.ts'
import type { ResolveHost } from '../platform/network/name-cache.ts'
import type { ProviderConfig, Scripts } from './config.ts'
import { createLocalServers } from './local-servers.ts'
import { localProvider } from './providers/local/provider.ts'
import type { ProxySettings } from './proxy.ts'
import { createProviderRegistry, type ProviderRegistry } from './registry.ts'

export type ModelsRoom = { providers: ProviderRegistry; jobs: Job[]; close(): Promise<void> }

/** Opens every configured provider. With `discoverLocal`, a job searches for model servers on this machine. */
export function openModels(
  config: {
    providers: readonly ProviderConfig[]
    scripts?: Scripts | undefined
    discoverLocal?: boolean | undefined
    proxies?: ProxySettings | undefined
  },
  deps: { clock: Clock; log: Log; resolve: ResolveHost },
): ModelsRoom {
  const localServers = createLocalServers(
    config.providers.map(({ name }) => name),
    deps,
  )
  const builtIn = [localProvider(config.scripts, deps.clock)]
  const providers = createProviderRegistry(config.providers, {
    ...deps,
    proxies: config.proxies,
    builtIn,
    found: localServers.found,
  })
  return {
    providers,
    jobs: config.discoverLocal ? [{ name: 'find-local-servers', cron: '* * * * *', run: localServers.look }] : [],
    async close() {
      await providers.close()
      await localServers.close()
    },
  }
}
