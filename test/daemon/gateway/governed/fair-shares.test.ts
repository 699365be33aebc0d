import { describe, expect, test } from 'vitest'
import { TURN_WAIT_MS } from '../../../../src/daemon/gateway/room.ts'
import type { Clock } from '../../../../src/shared/time.ts'
import { CHAT_PATH } from '../../../../src/shared/wire/chat.ts'
import { MESSAGES_PATH } from '../../../../src/shared/wire/messages.ts'
import { OPENAI_CHAT_PATH, OPENAI_EMBEDDINGS_PATH } from '../../../../src/shared/wire/openai.ts'
import { POLICY_CHECK_PATH } from '../../../../src/shared/wire/policy-check.ts'
import { addKey, addTenant, addUser } from '../../../accounts.ts'
import { deferred } from '../../../deferred.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, startGateway } from '../../../harness.ts'
import { holdRequest } from '../../../held-request.ts'
import { addTestTenant } from '../../../tenant-admin.ts'
import { chatJson, hang, replyJson } from '../../../upstream.ts'

/** A clock that counts the chats that wait for a slot. */
function clockOfQueue(): Clock & { readonly queued: number } {
  const clock = createFakeClock()
  let queued = 0
  return {
    ...clock,
    after(ms, run) {
      const timer = clock.after(ms, run)
      if (ms !== TURN_WAIT_MS) return timer
      queued += 1
      return {
        cancel() {
          queued -= 1
          timer.cancel()
        },
      }
    },
    get queued() {
      return queued
    },
  }
}

/** Lets the daemon run until this many chats wait for a slot. */
async function untilQueued(clock: { readonly queued: number }, count: number): Promise<void> {
  while (clock.queued !== count) await new Promise((resolve) => setImmediate(resolve))
}

/** Ordinary keys of one new tenant. */
async function keysOf({ app: { db } }: Gateway, count: number): Promise<string[]> {
  const { id: tenant_id } = await addTenant(db)
  const user = await addUser(db, { tenant_id })
  const keys: string[] = []
  for (let key = 0; key < count; key++) keys.push((await addKey(db, user)).secret)
  return keys
}

/** Answers only after `answer`, one request at a time. */
function heldUpstream({ upstream }: Gateway) {
  const held: (() => void)[] = []
  upstream.fallback(async (exchange) => {
    const turn = deferred()
    held.push(turn.resolve)
    await turn.promise
    await replyJson(chatJson('done'))(exchange)
  })
  return {
    /** Answers the oldest request, after it has arrived. */
    async answer() {
      while (held.length === 0) await new Promise((resolve) => setImmediate(resolve))
      held.shift()?.()
    },
  }
}

const promptsOf = ({ upstream }: Gateway) =>
  upstream.requests.map(({ body }) => (body as { messages: { content: string }[] }).messages.at(-1)?.content)

describe('tenants share a provider equally', () => {
  test('a tenant with 50 keys and full queues delays a tenant with one key by one request', async () => {
    const clock = clockOfQueue()
    const gateway = await startGateway({ clock, concurrency: { perProvider: 1 } })
    const { answer } = heldUpstream(gateway)
    const many = await keysOf(gateway, 50)
    const [single = ''] = await keysOf(gateway, 1)
    const chats = [gateway.chat({ prompt: 'first' }, { key: many[0] as string })]
    await gateway.upstream.nextRequest()
    for (const key of many) chats.push(gateway.chat({ prompt: 'many' }, { key }))
    await untilQueued(clock, 50)
    chats.push(gateway.chat({ prompt: 'single' }, { key: single }), gateway.chat({ prompt: 'single' }, { key: single }))
    await untilQueued(clock, 52)
    for (let served = 0; served < chats.length; served++) await answer()
    expect((await Promise.all(chats)).map(({ status }) => status)).toEqual(chats.map(() => 200))
    // The first turn is the tenant's that has waited longest. From then on, the tenants alternate.
    expect(promptsOf(gateway).slice(0, 6)).toEqual(['first', 'many', 'single', 'many', 'single', 'many'])
  })
})

describe('a tenant has one limit, regardless of the number of its keys', () => {
  test('a chat above the limit waits, the keys take turns, and another tenant is served at once', async () => {
    const clock = clockOfQueue()
    const gateway = await startGateway({ clock, concurrency: { perTenant: 2 } })
    const { answer } = heldUpstream(gateway)
    const [one, two, three] = (await keysOf(gateway, 3)) as [string, string, string]
    const [other = ''] = await keysOf(gateway, 1)
    const chat = (prompt: string, key: string) => gateway.chat({ prompt }, { key })
    const chats = [chat('one', one), chat('one', one)]
    for (let running = 0; running < 2; running++) await gateway.upstream.nextRequest()
    chats.push(chat('two', two))
    await untilQueued(clock, 1)
    chats.push(chat('three', three))
    await untilQueued(clock, 2)
    const others = chat('other', other)
    await gateway.upstream.nextRequest()
    expect(promptsOf(gateway)).toEqual(['one', 'one', 'other'])
    for (let served = 0; served < 5; served++) await answer()
    expect((await Promise.all([...chats, others])).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
    expect(promptsOf(gateway)).toEqual(['one', 'one', 'other', 'two', 'three'])
  })

  test('503 with Retry-After: as many may wait as may run, including requests that still send their body', async () => {
    const gateway = await startGateway({ concurrency: { perTenant: 1 } })
    const [one, two] = (await keysOf(gateway, 2)) as [string, string]
    const [other = ''] = await keysOf(gateway, 1)
    const body = JSON.stringify({ model: 'test/any', messages: [{ role: 'user', content: 'hi' }] })
    const slow = { key: one, method: 'POST', path: '/v1/chat/completions', body }
    const held = [await holdRequest(gateway.url, slow), await holdRequest(gateway.url, slow)]
    const refused = await gateway.chat({ prompt: 'hi' }, { key: two })
    expect([refused.status, refused.headers['retry-after'], refused.body]).toEqual([
      503,
      '2',
      expect.objectContaining({ message: expect.stringContaining('this tenant may run 2 at once') }),
    ])
    expect((await gateway.chat({ prompt: 'hi' }, { key: other })).status).toBe(200)
    for (const request of held) expect((await request.finish()).status).toBe(200)
    expect((await gateway.chat({ prompt: 'hi' }, { key: two })).status).toBe(200)
  })

  test('a chat that is rejected at the limit of its tenant releases the slot of its key', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({
      clock,
      concurrency: { perTenant: 1, perKey: 1, waitingPerKey: 0 },
    })
    const { answer } = heldUpstream(gateway)
    const [one, two] = (await keysOf(gateway, 2)) as [string, string]
    const first = gateway.chat({ prompt: 'hi' }, { key: one })
    await gateway.upstream.nextRequest()
    for (let attempt = 0; attempt < 2; attempt++) {
      const { status, body } = await gateway.chat({ prompt: 'hi' }, { key: two })
      expect([status, body]).toEqual([
        503,
        expect.objectContaining({ message: expect.stringContaining('this tenant may run 1 at once') }),
      ])
    }
    await answer()
    expect((await first).status).toBe(200)
    const second = gateway.chat({ prompt: 'hi' }, { key: two })
    await answer()
    expect((await second).status).toBe(200)
  })
})

test('administration and probes answer while models are saturated', async () => {
  const gateway = await startGateway({ limits: { runningMax: 20 } })
  gateway.upstream.fallback(hang)
  const admin = await addTestTenant(gateway)
  const [key = ''] = await keysOf(gateway, 1)
  const leave = new AbortController()
  const running = Array.from({ length: 18 }, () => gateway.chat({ prompt: 'hi' }, { key, signal: leave.signal }))
  for (const _ of running) await gateway.upstream.nextRequest()
  for (const path of [CHAT_PATH, POLICY_CHECK_PATH, OPENAI_CHAT_PATH, OPENAI_EMBEDDINGS_PATH, MESSAGES_PATH]) {
    const { status, headers } = await gateway.call('POST', path, {})
    expect([path, status, headers['retry-after']]).toEqual([path, 503, '1'])
  }
  const reads = [
    '/livez',
    '/readyz',
    '/metrics',
    '/api/external/groups',
    '/api/external/users',
    '/api/external/audit-logs',
  ]
  for (const path of reads) {
    expect([path, (await gateway.call('GET', path)).status]).toEqual([path, 200])
  }
  expect((await admin.call('GET', '/api/external/groups')).status).toBe(200)
  expect(
    (await admin.call('POST', '/api/external/groups', { name: 'Made under load', description: 'A group' })).status,
  ).toBe(201)
  leave.abort()
  await Promise.allSettled(running)
})
