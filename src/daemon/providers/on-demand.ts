import type { ChatPart, Provider, ProviderCall } from './provider.ts'

/** A provider whose code is loaded by its first call. Later calls go straight to it. */
export function providerOnDemand(
  { name, models }: Pick<Provider, 'name' | 'models'>,
  load: () => Promise<Provider>,
): Provider {
  let loading: Promise<Provider> | undefined
  let loaded: Provider | undefined

  function provider(): Promise<Provider> {
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
    name,
    models,
    chat: (call, signal) => (loaded ? loaded.chat(call, signal) : chatOnceLoaded(call, signal)),
    async close() {
      await (await loading)?.close()
    },
  }
}
