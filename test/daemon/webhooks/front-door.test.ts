import { afterEach, expect, test } from 'vitest'
import { verify } from '../../../src/shared/webhook-signature.ts'
import { describeEachEngine } from '../../engines.ts'
import { startGateway } from '../../harness.ts'
import { chatJson, replyJson } from '../../upstream.ts'
import { type Receiver, reply, startReceiver } from './receiver.ts'

let receiver: Receiver
afterEach(() => receiver.close())

describeEachEngine('a daemon', (engine) => {
  test.each([
    [false, null],
    [true, 'a page of the operator'],
  ])('shows tenants the response of a private receiver only if the operator allows it: %s', async (...one) => {
    const [showPrivateBodies, shown] = one
    receiver = await startReceiver(reply(500, 'a page of the operator'))
    const gateway = await startGateway({ engine, webhooks: { allowPrivate: true, allow: [], showPrivateBodies } })
    const created = await gateway.call('POST', '/api/admin/webhooks', { url: receiver.url, events: ['*'] })
    const id = (await gateway.call('POST', `/api/admin/webhooks/${created.body.webhook.id}/test`)).body.delivery_id
    const show = async () => (await gateway.call('GET', `/api/admin/deliveries/${id}`)).body.delivery
    await expect.poll(async () => (await show()).lastStatus, { timeout: 10_000 }).toBe(500)
    const delivery = await show()
    expect(delivery.lastResponse).toBe(shown)
    if (shown === null) expect(JSON.stringify(delivery)).not.toContain('page of the operator')
  })

  test('sends the events of a chat and of the test route, signed with the secret that was returned once', async () => {
    receiver = await startReceiver()
    const gateway = await startGateway({ engine })
    const bad = replyJson({ error: { message: 'down' } }, { status: 500 })
    const good = replyJson(chatJson('yes', { usage: { prompt_tokens: 1, completion_tokens: 1 } }))
    gateway.upstream.fallback((exchange) =>
      ((exchange.request.body as { model: string }).model === 'bad' ? bad : good)(exchange),
    )
    const endpoint = { url: receiver.url, description: 'mine', events: ['*'], enabled: true }
    const created = await gateway.call('POST', '/api/admin/webhooks', endpoint)
    expect(created.status).toBe(201)

    const chat = await gateway.chat({ prompt: 'hi', model: 'test/bad', fallback_models: ['test/good'] })
    expect(chat.status).toBe(200)
    await receiver.arrived(1)
    const tested = await gateway.call('POST', `/api/admin/webhooks/${created.body.webhook.id}/test`)
    expect(tested.status).toBe(202)
    await receiver.arrived(2)

    const bodies = receiver.received.map(({ body }) => JSON.parse(body))
    expect(bodies[0]).toMatchObject({
      id: expect.stringMatching(/^evt_[0-9a-f]{24}$/),
      type: 'api:model_failover',
      created: expect.any(Number),
      data: { failedModel: 'test/bad', nextModel: 'test/good', reason: 'server_error', latencyMs: expect.any(Number) },
    })
    expect(bodies[1]).toMatchObject({
      id: expect.stringMatching(/^evt_test_/),
      type: 'webhook:test',
      data: { message: expect.any(String), endpointId: created.body.webhook.id },
    })
    expect(receiver.received[1]?.headers['x-service-delivery']).toBe(tested.body.delivery_id)
    const now = Math.floor(Date.now() / 1000)
    for (const { body, headers } of receiver.received) {
      const header = headers['x-service-signature']
      expect(verify(body, header, [created.body.secret], { toleranceSeconds: 300, now })).toMatchObject({ valid: true })
    }
  })

  test('does not deliver to itself', async () => {
    receiver = await startReceiver()
    const gateway = await startGateway({ engine })
    const endpoint = { url: `${gateway.url}/hook`, description: 'loop', events: ['*'], enabled: true }
    const refused = await gateway.call('POST', '/api/admin/webhooks', endpoint)
    expect([refused.status, refused.body.error]).toMatchObject([400, expect.anything()])
    expect(refused.text).toContain('gateway itself')
  })
})
