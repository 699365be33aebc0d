import { expect, test } from 'vitest'
import { CACHE_WAIT_MS } from '../../../../src/shared/spec-limits.ts'
import { deferred } from '../../../deferred.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, startGateway, textOf } from '../../../harness.ts'
import { chatJson, chatStream, replyJson, replySteps } from '../../../upstream.ts'

const cache = { enabled: true }
const USE = { headers: { 'x-aigw-cache': 'use' } }
const usage = { prompt_tokens: 3, completion_tokens: 2 }

/** Requests that were sent earlier have reached the cache: they take the same path through the daemon, in order. */
async function arrived(gateway: Gateway): Promise<void> {
  for (let later = 0; later < 8; later++) await gateway.call('GET', '/api/external/whoami')
}

/** Begins a request whose model does not answer until the promise is resolved. */
async function beginLeader(gateway: Gateway, held: Promise<unknown>, options: { signal?: AbortSignal } = {}) {
  const start = chatStream(['one '], { finishReason: null, done: false })
  gateway.upstream.script(replySteps([start, held, chatStream(['two'], { usage })]))
  const leader = gateway.stream({ prompt: 'hi' }, { ...USE, ...options })
  await gateway.upstream.nextRequest()
  return leader
}

describeEachEngine('identical requests in flight', (engine) => {
  test('call the model once, and only the first is billed', async () => {
    const gateway = await startGateway({ engine, cache })
    const held = deferred()
    const leading = beginLeader(gateway, held.promise)
    await arrived(gateway)
    const whole = Array.from({ length: 3 }, () => gateway.chat({ prompt: 'hi' }, USE))
    const streamed = gateway.stream({ prompt: 'hi' }, USE)
    await arrived(gateway)
    held.resolve()
    const leader = await leading
    const [head] = leader.frames
    const original = head?.type === 'metadata' ? head.data.metadata.smltp.bundle_id : ''
    expect([textOf(leader.frames), leader.done]).toEqual(['one two', true])
    for (const { body } of await Promise.all(whole)) {
      expect(body.choices[0]?.message.content).toBe('one two')
      expect(body.metadata.cache).toEqual({ status: 'coalesced', age_s: 0, original })
    }
    const follower = await streamed
    expect([textOf(follower.frames), follower.done]).toEqual(['one two', true])
    expect(gateway.upstream.requests).toHaveLength(1)
    const bills = await gateway.usage()
    expect(bills.map(({ cost_nanos }) => cost_nanos > 0).sort()).toEqual([false, false, false, false, true])
  })

  test('do not fail with the first: the next one calls the model, and the others get its answer', async () => {
    const gateway = await startGateway({ engine, cache })
    const held = deferred()
    gateway.upstream.script(
      async (exchange) => {
        await held.promise
        await replyJson({ error: {} }, { status: 500 })(exchange)
      },
      replyJson(chatJson('second', { usage })),
    )
    const first = gateway.chat({ prompt: 'hi' }, USE)
    await gateway.upstream.nextRequest()
    const others = Array.from({ length: 3 }, () => gateway.chat({ prompt: 'hi' }, USE))
    await arrived(gateway)
    held.resolve()
    expect((await first).status).toBe(502)
    const answers = await Promise.all(others)
    expect(answers.map(({ body }) => body.choices[0]?.message.content)).toEqual(['second', 'second', 'second'])
    expect(answers.map(({ body }) => body.metadata.cache?.status).sort()).toEqual(['coalesced', 'coalesced', 'miss'])
    expect(gateway.upstream.requests).toHaveLength(2)
  })

  test('do not fail if the client of the first leaves', async () => {
    const gateway = await startGateway({ engine, cache })
    const leave = new AbortController()
    const leading = beginLeader(gateway, new Promise(() => {}), { signal: leave.signal })
    await arrived(gateway)
    const others = Array.from({ length: 2 }, () => gateway.chat({ prompt: 'hi' }, USE))
    await arrived(gateway)
    leave.abort()
    await expect(leading).rejects.toThrow()
    const answers = await Promise.all(others)
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(gateway.upstream.requests).toHaveLength(2)
  })

  test('do not share an answer that is incomplete', async () => {
    const gateway = await startGateway({ engine, cache })
    const held = deferred()
    gateway.upstream.script(async (exchange) => {
      await held.promise
      await replyJson(chatJson('cut', { finishReason: 'length', usage }))(exchange)
    })
    const first = gateway.chat({ prompt: 'hi' }, USE)
    await gateway.upstream.nextRequest()
    const other = gateway.chat({ prompt: 'hi' }, USE)
    await arrived(gateway)
    held.resolve()
    expect((await first).body.choices[0]).toMatchObject({ message: { content: 'cut' }, finish_reason: 'length' })
    expect((await other).body.choices[0]?.message.content).toBe('Hello from the upstream.')
  })

  test('are independent without opting in, and with `refresh`', async () => {
    const gateway = await startGateway({ engine, cache })
    const held = deferred()
    const leading = beginLeader(gateway, held.promise)
    await arrived(gateway)
    const plain = await gateway.chat({ prompt: 'hi' })
    const refreshed = await gateway.chat({ prompt: 'hi' }, { headers: { 'x-aigw-cache': 'refresh' } })
    expect([plain.body.metadata.cache, refreshed.body.metadata.cache]).toEqual([undefined, { status: 'refreshed' }])
    held.resolve()
    expect((await leading).done).toBe(true)
    expect(gateway.upstream.requests).toHaveLength(3)
  })

  test('wait for the first for a limited time', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, cache, clock })
    const held = deferred()
    const leading = beginLeader(gateway, held.promise)
    await arrived(gateway)
    const other = gateway.chat({ prompt: 'hi' }, USE)
    await arrived(gateway)
    expect(clock.dueIn(CACHE_WAIT_MS)).toBe(true)
    clock.advance(CACHE_WAIT_MS)
    const { status, body } = await other
    expect([status, body.metadata.cache]).toEqual([200, { status: 'miss' }])
    held.resolve()
    expect((await leading).done).toBe(true)
  })
})
