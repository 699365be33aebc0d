import dns from 'node:dns'
import { isIP } from 'node:net'
import { afterEach, expect, test, vi } from 'vitest'
import { deferred } from '../../../deferred.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { startGateway, upstreamProvider } from '../../../harness.ts'
import { chatJson, replyJson, startUpstream } from '../../../upstream.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

/** Replaces the system's lookup. Like libuv, it runs only `threads` lookups at a time. */
function replaceLookup(threads: number, answerFor: (host: string) => Promise<string>) {
  const asked: string[] = []
  const waiting: (() => Promise<void>)[] = []
  let running = 0
  const runNext = () => {
    const next = running < threads ? waiting.shift() : undefined
    if (!next) return
    running++
    void next().finally(() => {
      running--
      runNext()
    })
  }
  const system = dns.lookup
  const lookup = (host: string, options: object, answer: (error: Error | null, found?: unknown) => void) => {
    // A server that starts to listen looks up its address.
    if (isIP(host)) return system(host, options, answer)
    waiting.push(async () => {
      asked.push(host)
      await answerFor(host).then(
        (address) => answer(null, [{ address, family: 4 }]),
        (error) => answer(error),
      )
    })
    runNext()
  }
  vi.spyOn(dns, 'lookup').mockImplementation(lookup as typeof dns.lookup)
  return asked
}

test('lookups of one provider that hang delay no call to another provider', async () => {
  const upstream = await startUpstream()
  // Each call needs a new connection, and thus the addresses of its name.
  upstream.fallback(replyJson(chatJson('Hello.'), { headers: { connection: 'close' } }))
  const { port } = new URL(upstream.url)
  const hanging = deferred<string>()
  const hangs = deferred<void>()
  const asked = replaceLookup(1, (host) => {
    if (host === 'fast.example') return Promise.resolve('127.0.0.1')
    hangs.resolve()
    return hanging.promise
  })
  const clock = createFakeClock()
  const gateway = await startGateway({
    clock,
    providers: [
      upstreamProvider('fast', `http://fast.example:${port}/v1`),
      upstreamProvider('slow', `http://slow.example:${port}/v1`),
    ],
  })
  const fast = () => gateway.chat({ model: 'fast/any', messages: [{ role: 'user', content: 'Hi' }] })
  expect(await fast()).toMatchObject({ status: 200 })

  const leaving = new AbortController()
  const slow = Array.from({ length: 3 }, () =>
    gateway.chat({ model: 'slow/any', messages: [{ role: 'user', content: 'Hi' }] }, { signal: leaving.signal }),
  )
  await hangs.promise
  clock.advance(8_000)
  expect(await fast()).toMatchObject({ status: 200 })
  // The addresses are stale now. They are used, although their refresh waits for the thread of the slow lookup.
  clock.advance(8_000)
  expect(await fast()).toMatchObject({ status: 200 })
  expect(asked).toEqual(['fast.example', 'slow.example'])

  leaving.abort()
  await Promise.allSettled(slow)
  hanging.reject(Object.assign(new Error('not found'), { code: 'ENOTFOUND' }))
  await gateway.close()
  await upstream.close()
})
