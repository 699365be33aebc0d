import { afterEach, beforeEach } from 'vitest'
import type { Provider, ProviderCall } from '../../../src/daemon/models/provider.ts'
import { type Script, startUpstream, type Upstream } from '../../upstream.ts'

/** A call of this model that says "Hi", with these members. */
export const testCall = (given: Pick<ProviderCall, 'model'> & Partial<ProviderCall>): ProviderCall => ({
  system: '',
  messages: [{ role: 'user', content: 'Hi' }],
  grounding: null,
  temperature: undefined,
  maxTokens: 64,
  stream: false,
  timeouts: { attemptMs: 10_000, firstTokenMs: 5_000, stallMs: 5_000 },
  ...given,
})

type TestUpstream = Pick<Upstream, 'url' | 'requests' | 'nextRequest' | 'script' | 'fallback'> & {
  /** The URL without its path. */
  readonly origin: string
  /** Closes this provider after the test. Returns it. */
  closeAfter<P extends Pick<Provider, 'close'>>(provider: P): P
}

/** A new upstream for each test of the file. @param otherwise answers requests without a script */
export function upstreamForEach(otherwise?: Script): TestUpstream {
  const opened: Pick<Provider, 'close'>[] = []
  let upstream: Upstream
  beforeEach(async () => {
    upstream = await startUpstream()
    if (otherwise) upstream.fallback(otherwise)
  })
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((provider) => provider.close()))
    await upstream.close()
  })
  return {
    get url() {
      return upstream.url
    },
    get origin() {
      return new URL(upstream.url).origin
    },
    get requests() {
      return upstream.requests
    },
    nextRequest: () => upstream.nextRequest(),
    script: (...scripts) => upstream.script(...scripts),
    fallback: (script) => upstream.fallback(script),
    closeAfter(provider) {
      opened.push(provider)
      return provider
    },
  }
}
