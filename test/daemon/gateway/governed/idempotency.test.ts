import { expect, test } from 'vitest'
import { purgeExpired } from '../../../../src/daemon/gateway/governed/idempotency.ts'
import { addKey, addUser } from '../../../accounts.ts'
import { deferred } from '../../../deferred.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { startGateway, textOf } from '../../../harness.ts'
import { chatStream, hang, replyJson, replyRaw, replySteps } from '../../../upstream.ts'

const usage = { prompt_tokens: 3, completion_tokens: 2 }
const withKey = (key: string) => ({ headers: { 'idempotency-key': key } })

describeEachEngine('an Idempotency-Key', (engine) => {
  test('repeated: the same bytes again, one upstream call, one bill, also after a restart', async () => {
    const gateway = await startGateway({ engine })
    const first = await gateway.chat({ prompt: 'hi' }, withKey('k-1'))
    expect(first.headers['idempotent-replayed']).toBeUndefined()
    const second = await gateway.chat({ prompt: 'hi' }, withKey('k-1'))
    await gateway.restart()
    const third = await gateway.chat({ prompt: 'hi' }, withKey('k-1'))
    for (const repeat of [second, third]) {
      expect([repeat.status, repeat.text]).toEqual([200, first.text])
      expect(repeat.headers['idempotent-replayed']).toBe('true')
      expect(repeat.headers['x-request-id']).not.toBe(first.headers['x-request-id'])
    }
    expect(gateway.upstream.requests).toHaveLength(1)
    expect(await gateway.usage()).toHaveLength(1)
  })

  test('repeated on a stream: the same frames again', async () => {
    const gateway = await startGateway({ engine })
    gateway.upstream.script(replyRaw(chatStream(['a', 'b'], { usage })))
    const first = await gateway.stream({ prompt: 'hi' }, withKey('k-1'))
    const second = await gateway.stream({ prompt: 'hi' }, withKey('k-1'))
    expect(second.text).toBe(first.text)
    expect(second.headers['content-type']).toBe('text/event-stream; charset=utf-8')
    expect(await gateway.usage()).toHaveLength(1)
  })

  test('with another body is 422, whether the first request is finished or running', async () => {
    const gateway = await startGateway({ engine })
    await gateway.chat({ prompt: 'hi' }, withKey('done'))
    const { status, body } = await gateway.chat({ prompt: 'ho' }, withKey('done'))
    expect([status, body.error]).toEqual([422, 'Idempotency key reused'])
    gateway.upstream.script(hang)
    const leave = new AbortController()
    const running = gateway.chat({ prompt: 'hi' }, { ...withKey('running'), signal: leave.signal })
    await gateway.upstream.nextRequest()
    await gateway.upstream.nextRequest()
    expect((await gateway.chat({ prompt: 'ho' }, withKey('running'))).status).toBe(422)
    leave.abort()
    await expect(running).rejects.toThrow()
  })

  test('that has an answer: an earlier wrong body does not block it', async () => {
    const gateway = await startGateway({ engine })
    const first = await gateway.chat({ prompt: 'hi' }, withKey('k-1'))
    const prompts = ['ho', 'hi', 'ho', 'hi']
    const answers = await Promise.all(prompts.map((prompt) => gateway.chat({ prompt }, withKey('k-1'))))
    expect(answers.map(({ status }) => status)).toEqual([422, 200, 422, 200])
    expect(answers[1]?.text).toBe(first.text)
  })

  test('is independent on another route and for another key', async () => {
    const gateway = await startGateway({ engine })
    const { id: tenant_id } = await gateway.app.db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
    const { secret: key } = await addKey(gateway.app.db, await addUser(gateway.app.db, { tenant_id }))
    const own = await gateway.chat({ prompt: 'hi' }, withKey('k-1'))
    const messages = [{ role: 'user', content: 'ho' }]
    const others = [
      await gateway.chat({ prompt: 'ho' }, { ...withKey('k-1'), key }),
      await gateway.call('POST', '/v1/chat/completions', { model: 'test/any', messages }, withKey('k-1')),
    ]
    for (const { status, headers, text } of others) {
      expect([status, headers['idempotent-replayed']]).toEqual([200, undefined])
      expect(text).not.toBe(own.text)
    }
  })

  test('whose first request failed runs again', async () => {
    const gateway = await startGateway({ engine })
    gateway.upstream.script(
      replyJson({}, { status: 500 }),
      replySteps([chatStream(['a'], { finishReason: null, done: false })], { ending: 'close' }),
      replyRaw(chatStream(['a', 'b'], { usage })),
    )
    expect((await gateway.chat({ prompt: 'hi', stream: true }, withKey('k-1'))).status).toBe(502)
    expect((await gateway.stream({ prompt: 'hi' }, withKey('k-1'))).done).toBe(false)
    expect((await gateway.stream({ prompt: 'hi' }, withKey('k-1'))).done).toBe(true)
  })

  test('of a client that disconnects: the answer is completed, billed once, and available for the next try', async () => {
    const gateway = await startGateway({ engine })
    const held = deferred()
    const start = chatStream(['one '], { finishReason: null, done: false })
    gateway.upstream.script(replySteps([start, held.promise, chatStream(['two'], { usage })]))
    const leave = new AbortController()
    const answer = await gateway.openStream({ prompt: 'hi', stream: true }, { ...withKey('k-1'), signal: leave.signal })
    await answer.next()
    leave.abort()
    const again = gateway.stream({ prompt: 'hi' }, withKey('k-1'))
    held.resolve()
    const { frames, done, headers } = await again
    expect([textOf(frames), done, headers['idempotent-replayed']]).toEqual(['one two', true, 'true'])
    expect(await gateway.usage()).toEqual([expect.objectContaining({ outcome: 'complete' })])
    expect(gateway.upstream.requests).toHaveLength(1)
  })

  test('whose stream breaks: every waiter gets the failure, without another upstream call', async () => {
    const gateway = await startGateway({ engine })
    const held = deferred()
    const start = chatStream(['one '], { finishReason: null, done: false })
    gateway.upstream.script(replySteps([start, held.promise], { ending: 'close' }))
    const first = gateway.stream({ prompt: 'hi' }, withKey('k-1'))
    await gateway.upstream.nextRequest()
    const waiting = Array.from({ length: 3 }, () => gateway.chat({ prompt: 'hi', stream: true }, withKey('k-1')))
    // They take the same path through the daemon, in order, so the earlier ones have arrived first.
    for (let later = 0; later < 5; later++) await gateway.call('GET', '/api/external/whoami')
    held.resolve()
    expect((await first).done).toBe(false)
    // Clients that joined too late would have received the upstream's default answer.
    const answers = await Promise.all(waiting)
    const refused = answers.filter(({ status }) => status === 502)
    expect(refused.length).toBeGreaterThan(0)
    expect(gateway.upstream.requests.length).toBe(1 + (refused.length < answers.length ? 1 : 0))
  })

  test('expires after 24 hours', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, clock })
    await gateway.chat({ prompt: 'hi' }, withKey('k-1'))
    clock.advance(24 * 3_600_000)
    await gateway.chat({ prompt: 'hi' }, withKey('k-1'))
    expect(gateway.upstream.requests).toHaveLength(2)
    expect((await gateway.chat({ prompt: 'hi' }, withKey('k-1'))).headers['idempotent-replayed']).toBe('true')
  })

  test('that has expired is deleted by the next purge', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, clock })
    await gateway.chat({ prompt: 'hi' }, withKey('old'))
    clock.advance(24 * 3_600_000 - 1)
    await purgeExpired({ db: gateway.app.db, clock })
    expect(await gateway.app.db.selectFrom('idempotency_results').selectAll().execute()).toHaveLength(1)
    clock.advance(1)
    await purgeExpired({ db: gateway.app.db, clock })
    expect(await gateway.app.db.selectFrom('idempotency_results').selectAll().execute()).toEqual([])
    expect(await gateway.usage()).toHaveLength(1)
  })

  test.each(['', 'a b', 'x'.repeat(256), 'é'])('that is malformed (%j) is 400', async (key) => {
    const gateway = await startGateway({ engine })
    const { status, body } = await gateway.chat({ prompt: 'hi' }, withKey(key))
    expect([status, body.error]).toEqual([400, 'Invalid Idempotency-Key'])
  })
})
