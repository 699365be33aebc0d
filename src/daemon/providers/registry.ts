import type { Clock } from '../../shared/time.ts'
import type { ProviderConfig } from '../config.ts'
import type { Log } from '../log.ts'
import { openAiProvider } from './openai/provider.ts'
import type { Provider } from './provider.ts'

export type ProviderRegistry = {
  /** The provider of `<provider>/<model>` and its own name of the model; undefined when nobody offers it. */
  find(modelId: string): { provider: Provider; model: string } | undefined
  /** What may be asked for, for the message of an unknown model: model ids, and `<provider>/*` where any name goes. */
  describe(): string[]
  close(): Promise<void>
}

/**
 * The built-in providers and those of the configuration, by name.
 * @throws Error when two share a name, or a `local` one is configured that is not built in.
 */
export function createProviderRegistry(
  configs: readonly ProviderConfig[],
  { clock, log, builtIn }: { clock: Clock; log?: Log; builtIn: readonly Provider[] },
): ProviderRegistry {
  const providers = new Map<string, Provider>(builtIn.map((provider) => [provider.name, provider]))
  for (const config of configs) {
    if (config.kind === 'local') {
      if (!providers.has(config.name)) throw new Error(`provider "${config.name}": only "local" may be of kind local`)
      continue
    }
    if (providers.has(config.name)) throw new Error(`provider "${config.name}" is configured twice`)
    providers.set(config.name, openAiProvider(config, { clock }))
  }

  const describe = () => [...providers.values()].flatMap((provider) => modelIds(provider) ?? [`${provider.name}/*`])
  log?.info({ models: describe() }, 'providers ready')

  return {
    describe,
    find(modelId) {
      const slash = modelId.indexOf('/')
      const provider = providers.get(modelId.slice(0, Math.max(0, slash)))
      const model = modelId.slice(slash + 1)
      if (!provider || model === '' || provider.models?.includes(model) === false) return undefined
      return { provider, model }
    },
    async close() {
      await Promise.all([...providers.values()].map((provider) => provider.close()))
    },
  }
}

const modelIds = ({ name, models }: Provider) => models?.map((model) => `${name}/${model}`)
