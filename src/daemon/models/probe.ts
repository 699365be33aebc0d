// Makes one small call to a model, to check the address and the key of its provider.
import { invalidField } from '../../shared/errors.ts'
import type { Clock } from '../../shared/time.ts'
import type { ProviderTest } from '../../shared/wire/providers.ts'
import { type Provider, ProviderError } from './provider.ts'
import type { ProviderRegistry } from './registry.ts'

/** The timeout of the call. Some models reason before their first word. */
const TEST_MS = 30_000
/** Enough for one word. Some models reject a lower limit. */
const TEST_TOKENS = 16

export type TestTerms = {
  clock: Clock
  /** Knows models of providers that list none. */
  prices: {
    modelsOf(provider: string): readonly string[]
    priceOf(modelId: string): { output: number }
  }
  /** Removes secrets from a message of the provider. */
  clean(said: string): string | undefined
}

/**
 * Calls a model of the provider, and returns how long the answer took, or why there was none. Embedding models embed
 * one word. The call bypasses circuits and queues, because it is to show the state of the provider itself.
 * @param asked without `model`: the first listed model, or the cheapest known one
 * @throws VALIDATION_ERROR if the model is not offered, or no model is known
 */
export async function testProvider(
  { name, model: asked }: { name: string; model: string | undefined },
  providers: Pick<ProviderRegistry, 'find' | 'describe'>,
  { clock, prices, clean }: TestTerms,
  signal: AbortSignal,
): Promise<ProviderTest> {
  const listed = providers.describe().find((id) => id.startsWith(`${name}/`) && !id.endsWith('/*'))
  const model = asked ?? listed?.slice(name.length + 1) ?? cheapest(name, prices)
  if (model === undefined)
    throw invalidField('model', `The provider "${name}" lists no models. Name one of its models in \`model\`.`)
  const found = providers.find(`${name}/${model}`)
  if (!found)
    throw invalidField('model', `The provider "${name}" does not offer this model. See its list of models.`, model)
  const startedMs = clock.monotonic()
  const ended = () => ({ provider: name, model, latencyMs: Math.round(clock.monotonic() - startedMs) })
  try {
    await call(found.provider, model, signal)
    return { ...ended(), ok: true, reason: null, message: `${name}/${model} answered` }
  } catch (error) {
    if (!(error instanceof ProviderError) || signal.aborted) throw error
    const said = error.said === undefined ? undefined : clean(error.said)
    const message = `${PLAIN[error.reason] ?? error.message}${said === undefined ? '' : `. The provider says: ${said}`}`
    return { ...ended(), ok: false, reason: error.reason, message }
  }
}

const PLAIN: Partial<Record<string, string>> = {
  auth_failed: 'The provider rejects the key, or the account may not use the model. Check api_key',
  model_not_found: 'The provider has no such model at this address. Check the name of the model, and base_url',
  quota_exhausted: 'The credit or a long-term quota of the account is used up. Check the account at the provider',
  rate_limit: 'The address and the key work, but a rate limit of the provider is reached. Try again later',
  timeout: 'The provider did not answer in time. Check base_url, the proxy and the network',
  connection_error: 'The provider could not be reached. Check base_url, DNS, the proxy and the network',
  server_error: 'The provider failed or sent an unreadable answer. Check base_url and kind, or try again later',
}

const cheapest = (name: string, { modelsOf, priceOf }: TestTerms['prices']): string | undefined =>
  modelsOf(name)
    .map((model) => ({ model, output: priceOf(`${name}/${model}`).output }))
    // Only chats have output that costs.
    .filter(({ output }) => output > 0)
    .sort((a, b) => a.output - b.output)[0]?.model

async function call(provider: Provider, model: string, signal: AbortSignal): Promise<void> {
  if (provider.embed && /embed/i.test(model)) {
    const dimensions = undefined
    await provider.embed({ model, input: ['ping'], dimensions, noTraining: true, attemptMs: TEST_MS }, signal)
    return
  }
  const chat = {
    model,
    system: '',
    messages: [{ role: 'user', content: 'Reply with the word: pong' } as const],
    grounding: null,
    temperature: 0,
    temperatureIsDefault: true,
    maxTokens: TEST_TOKENS,
    stream: false,
    noTraining: true,
    timeouts: { attemptMs: TEST_MS, firstTokenMs: TEST_MS, stallMs: TEST_MS },
  }
  for await (const _parts of provider.chat(chat, signal));
}
