import type { ChatPart, Provider, ProviderCall } from './provider.ts'

/**
 * Creates a provider whose code is loaded on the first call. Later chats call the loaded provider directly.
 * @param otherMembers returns the provider's members other than `chat`; its argument is a function that loads the
 * provider
 */
export function providerOnDemand<Loaded extends Provider>(
  { name, models }: Pick<Provider, 'name' | 'models'>,
  load: () => Promise<Loaded>,
  otherMembers: (
    provider: () => Promise<Loaded>,
  ) => Pick<
    Provider,
    'embed' | 'rerank' | 'countTokens' | 'needsMaxTokens' | 'leastThinkingTokens' | 'origin' | 'supports' | 'drops'
  > = () => ({}),
): Provider {
  let loading: Promise<Loaded> | undefined
  let loaded: Loaded | undefined

  function provider(): Promise<Loaded> {
    loading ??= load().then((ready) => {
      loaded = ready
      return ready
    })
    return loading
  }

  async function* chatOnceLoaded(call: ProviderCall, signal: AbortSignal): AsyncIterable<readonly ChatPart[]> {
    yield* (await provider()).chat(call, signal)
  }

  return {
    ...otherMembers(provider),
    name,
    models,
    chat: (call, signal) => (loaded ? loaded.chat(call, signal) : chatOnceLoaded(call, signal)),
    async close() {
      await (await loading)?.close()
    },
  }
}
