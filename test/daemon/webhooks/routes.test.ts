import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import { insertRows } from '../../../src/daemon/platform/db/insert-rows.ts'
import { createMasterKey } from '../../../src/daemon/platform/secrets/seal.ts'
import { newDelivery } from '../../../src/daemon/webhooks/delivery.ts'
import { WEBHOOK_ENDPOINTS } from '../../../src/daemon/webhooks/endpoints.ts'
import { signingSecretsOf } from '../../../src/daemon/webhooks/signing-secret.ts'
import { SUBSCRIBABLE_EVENTS } from '../../../src/shared/event-catalog.ts'
import { newId } from '../../../src/shared/ids.ts'
import { WEBHOOK_HELD_COUNTED, WEBHOOK_RECOVERED } from '../../../src/shared/spec-limits.ts'
import { isoTime } from '../../../src/shared/time.ts'
import { StructuredError } from '../../../src/shared/wire/common.ts'
import {
  DeliveryAcceptedResponse,
  ListDeliveriesResponse,
  ListWebhooksResponse,
  RecoverResponse,
  ShowDeliveryResponse,
  WebhookResponse,
  WebhookSecretResponse,
} from '../../../src/shared/wire/webhooks.ts'
import { addKey, addRole, addUser } from '../../accounts.ts'
import { describeEachEngine } from '../../engines.ts'
import { createFakeClock, type FakeClock } from '../../fake-clock.ts'
import { sharedGateway } from '../../harness.ts'
import { recordedChanges } from '../../recorded-changes.ts'
import { endpointRow, TEST_MASTER_KEY } from '../../webhook-rows.ts'

const PATH = '/api/admin/webhooks'
const HOOK = { url: 'http://127.0.0.1:61999/hook?token=of-the-receiver', events: ['*'] }
const START = Date.parse('2026-03-01T12:00:00.000Z')

describeEachEngine('the management of webhooks', (engine) => {
  const clock: FakeClock = createFakeClock(START)
  const shared = sharedGateway({ engine, clock })
  const call = (method: string, path: string, body?: unknown) => shared.current.call(method, path, body)
  const db = () => shared.current.app.db
  const masterKey = createMasterKey(TEST_MASTER_KEY)
  let tenantId: string

  beforeEach(async () => {
    tenantId = (await db().selectFrom('api_keys').select('tenant_id').executeTakeFirstOrThrow()).tenant_id
    await db().deleteFrom('webhook_deliveries').execute()
    await db().deleteFrom('webhook_endpoints').execute()
    await db().deleteFrom('outbox_events').execute()
  })

  const create = async (body: object = {}) => {
    const answer = await call('POST', PATH, { ...HOOK, ...body })
    expect(answer.status, answer.text).toBe(201)
    return WebhookSecretResponse.parse(answer.body)
  }
  const endpoint = (id: string) =>
    db().selectFrom('webhook_endpoints').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  const deliveries = () =>
    db().selectFrom('webhook_deliveries').selectAll().orderBy('created_at').orderBy('id').execute()
  const disabledBy = (reason: 'failures' | 'manual') => ({ enabled: 0, disabled_reason: reason, failure_count: 20 })
  const set = (id: string, fields: object) =>
    db().updateTable('webhook_endpoints').set(fields).where('id', '=', id).execute()

  function eventRow({ created_at = isoTime(START - 60_000), type = 'pii:incident' }) {
    const ids = { id: `evt_${newId()}`, tenant_id: tenantId }
    return { ...ids, type, created_at, data: '{"incidentId":"i1"}', fanned_out_at: created_at }
  }

  async function addEvent(fields: { type?: string; created_at?: string } = {}) {
    const event = eventRow(fields)
    await db().insertInto('outbox_events').values(event).execute()
    return event
  }

  async function addDelivery(endpointId: string, state: 'delivered' | 'failed' | 'held' | 'cancelled', at?: string) {
    const event = await addEvent({ ...(at !== undefined && { created_at: at }) })
    const row = { ...newDelivery(event, endpointId, Date.parse(event.created_at)), state, attempts: 3 }
    await db().insertInto('webhook_deliveries').values(row).execute()
    return row
  }

  describe('creating', () => {
    test('returns 201 with a secret that no later response contains, and forbids caching', async () => {
      const answer = await call('POST', PATH, { ...HOOK, description: ' Our SIEM ' })
      const { secret, webhook } = WebhookSecretResponse.parse(answer.body)
      expect(answer).toMatchObject({ status: 201, headers: { 'cache-control': 'no-store' } })
      expect(secret).toMatch(/^whsec_[0-9a-f]{64}$/)
      expect(webhook).toEqual({
        id: expect.stringMatching(/^[0-9a-f]{24}$/),
        url: HOOK.url,
        description: 'Our SIEM',
        events: ['*'],
        enabled: true,
        disabledReason: null,
        failureCount: 0,
        previousSecretUntil: null,
        lastDeliveryAt: null,
        lastStatus: null,
        heldDeliveries: 0,
        heldDropped: 0,
        createdAt: isoTime(clock.now()),
        updatedAt: isoTime(clock.now()),
      })
      for (const path of [PATH, `${PATH}/${webhook.id}`]) {
        const { text } = await call('GET', path)
        expect(text).toContain(webhook.id)
        expect(text).not.toMatch(/whsec_|v1\./)
      }
    })

    test('stores the secret sealed, and it can be opened only in its own row', async () => {
      const { secret, webhook } = await create()
      const row = await endpoint(webhook.id)
      expect(JSON.stringify(row)).not.toContain(secret)
      expect(signingSecretsOf(masterKey, row, isoTime(START))).toEqual([secret])
      expect(() => signingSecretsOf(masterKey, { ...row, id: newId() }, isoTime(START))).toThrow('cannot be decrypted')
    })

    test.each([
      ['no url', { url: undefined }, 'url'],
      ['an empty url', { url: ' ' }, 'url'],
      ['a url that is none', { url: 'receiver' }, 'url'],
      ['another scheme', { url: 'ftp://127.0.0.1/' }, 'url'],
      ['an address that is never called', { url: 'http://169.254.169.254/latest' }, 'url'],
      ['no events', { events: undefined }, 'events'],
      ['an empty list of events', { events: [] }, 'events'],
      ['an event that does not exist', { events: ['pii:incident', 'pii:incidents'] }, 'events.1'],
      ['a pattern of events', { events: ['pii:*'] }, 'events.0'],
      ['the event of the test route', { events: ['webhook:test'] }, 'events.0'],
      ['enabled that is no flag', { enabled: 'yes' }, 'enabled'],
    ])('rejects %s with VALIDATION_ERROR and names the field', async (_, fields, field) => {
      const answer = await call('POST', PATH, { ...HOOK, ...fields })
      expect(answer.status).toBe(400)
      expect(StructuredError.parse(answer.body).error).toMatchObject({ code: 'VALIDATION_ERROR', details: { field } })
      expect((await call('GET', PATH)).body.webhooks).toEqual([])
    })

    test('suggests the probable event for an unknown one, and explains the test event', async () => {
      const messageOf = async (event: string) =>
        (await call('POST', PATH, { ...HOOK, events: [event] })).body.error.message
      expect(await messageOf('pii:incidents')).toContain('did you mean "pii:incident"?')
      expect(await messageOf('webhook:test')).toContain('cannot be subscribed to')
    })

    test('stores a repeated event once', async () => {
      const { webhook } = await create({ events: ['dlp:incident', 'dlp:incident', 'pii:incident'] })
      expect(webhook.events).toEqual(['dlp:incident', 'pii:incident'])
    })

    test(`rejects more than ${WEBHOOK_ENDPOINTS}`, async () => {
      const rows = Array.from({ length: WEBHOOK_ENDPOINTS }, () => endpointRow({ tenant_id: tenantId, secret: 'v1.' }))
      for (let at = 0; at < rows.length; at += 500)
        await db()
          .insertInto('webhook_endpoints')
          .values(rows.slice(at, at + 500))
          .execute()
      const answer = await call('POST', PATH, HOOK)
      expect(answer).toMatchObject({ status: 400, body: { error: { code: 'VALIDATION_ERROR' } } })
    })
  })

  test('the list has all webhooks, newest first, and the catalog with the wildcard and without the test event', async () => {
    const { webhook: first } = await create()
    clock.advance(1000)
    const { webhook: second } = await create({ enabled: false })
    const { webhooks, events } = ListWebhooksResponse.parse((await call('GET', PATH)).body)
    expect(webhooks.map(({ id, enabled, disabledReason }) => ({ id, enabled, disabledReason }))).toEqual([
      { id: second.id, enabled: false, disabledReason: 'manual' },
      { id: first.id, enabled: true, disabledReason: null },
    ])
    expect(events.map(({ type }) => type)).toEqual(['*', ...SUBSCRIBABLE_EVENTS])
  })

  test('callers who may only read see the origin of an address, because the rest can contain a token', async () => {
    const { webhook } = await create()
    const role = await addRole(db(), {
      tenant_id: tenantId,
      permissions: [{ section: 'integrations', level: 'reader' }],
    })
    const user = await addUser(db(), { tenant_id: tenantId })
    await db().insertInto('user_roles').values({ tenant_id: tenantId, user_id: user.id, role_id: role.id }).execute()
    for (const reader of [user, await addUser(db(), { tenant_id: tenantId, role: 'globalReader' })]) {
      const { secret: key } = await addKey(db(), reader)
      for (const path of ['', `/${webhook.id}`]) {
        const { status, body, text } = await shared.current.call('GET', PATH + path, undefined, { key })
        const [shown] = body.webhooks ?? [body.webhook]
        expect([status, shown.url]).toEqual([200, 'http://127.0.0.1:61999/…'])
        expect(text).not.toContain('token=')
      }
    }
    expect((await call('GET', `${PATH}/${webhook.id}`)).body.webhook.url).toBe(HOOK.url)
    const back = await call('PUT', `${PATH}/${webhook.id}`, { url: 'http://127.0.0.1:61999/…' })
    expect([back.status, back.body.error.message]).toEqual([
      400,
      'url: url is shortened; send the whole address, or omit url.',
    ])
  })

  describe('changing', () => {
    test('changes only the sent fields', async () => {
      const { webhook } = await create({ description: 'before' })
      clock.advance(1000)
      const answer = await call('PUT', `${PATH}/${webhook.id}`, { events: ['dlp:incident'] })
      expect(WebhookResponse.parse(answer.body).webhook).toEqual({
        ...webhook,
        events: ['dlp:incident'],
        updatedAt: isoTime(clock.now()),
      })
    })

    test('validates url and events as creating does, and then changes nothing', async () => {
      const { webhook } = await create()
      for (const body of [{ url: 'http://169.254.169.254/' }, { events: ['webhook:test'] }, { events: ['nothing'] }]) {
        expect(await call('PUT', `${PATH}/${webhook.id}`, body)).toMatchObject({
          status: 400,
          body: { error: { code: 'VALIDATION_ERROR' } },
        })
      }
      expect((await call('GET', `${PATH}/${webhook.id}`)).body.webhook).toEqual(webhook)
    })

    test('enabling one that failures disabled resets them to 0 and counts the held deliveries', async () => {
      const { webhook } = await create()
      await set(webhook.id, disabledBy('failures'))
      await addDelivery(webhook.id, 'held')
      await addDelivery(webhook.id, 'held')
      await addDelivery(webhook.id, 'failed')
      const before = (await call('GET', `${PATH}/${webhook.id}`)).body.webhook
      expect(before).toMatchObject({ enabled: false, disabledReason: 'failures', failureCount: 20, heldDeliveries: 2 })
      expect((await call('PUT', `${PATH}/${webhook.id}`, { enabled: true })).body.webhook).toMatchObject({
        enabled: true,
        disabledReason: null,
        failureCount: 0,
        heldDeliveries: 2,
      })
    })

    test('the list counts held deliveries as the webhook itself does, enabled or not, without tests', async () => {
      const { webhook } = await create()
      await addDelivery(webhook.id, 'held')
      const ofTest = await addDelivery(webhook.id, 'held')
      await db().updateTable('webhook_deliveries').set({ is_test: 1 }).where('id', '=', ofTest.id).execute()
      for (const fields of [disabledBy('failures'), { enabled: 1 }]) {
        await set(webhook.id, fields)
        const [listed] = ListWebhooksResponse.parse((await call('GET', PATH)).body).webhooks
        expect(listed).toEqual((await call('GET', `${PATH}/${webhook.id}`)).body.webhook)
        expect(listed).toMatchObject({ heldDeliveries: 1 })
      }
      const answer = await call('POST', `${PATH}/${webhook.id}/recover`, { since: isoTime(START - 3_600_000) })
      expect(answer.body).toMatchObject({ recovered: 1, more: false })
    })

    test(`counts held deliveries up to ${WEBHOOK_HELD_COUNTED}`, async () => {
      const { webhook } = await create()
      const event = await addEvent()
      const rows = Array.from({ length: WEBHOOK_HELD_COUNTED + 2 }, (_, at) => ({
        ...newDelivery({ ...event, id: `${event.id}-${at}` }, webhook.id, START + at),
        state: 'held' as const,
      }))
      await insertRows(db(), 'webhook_deliveries', rows)
      const { body } = await call('GET', `${PATH}/${webhook.id}`)
      expect(body.webhook).toMatchObject({ heldDeliveries: WEBHOOK_HELD_COUNTED, heldDropped: 0 })
    })

    test('enabling one that is enabled keeps its consecutive failures', async () => {
      const { webhook } = await create()
      await set(webhook.id, { failure_count: 7 })
      const { body } = await call('PUT', `${PATH}/${webhook.id}`, { enabled: true, description: 'same' })
      expect(body.webhook).toMatchObject({ enabled: true, failureCount: 7 })
    })

    test('disabling records a manual cause, unless it was disabled already', async () => {
      const { webhook } = await create()
      const disable = async () => (await call('PUT', `${PATH}/${webhook.id}`, { enabled: false })).body.webhook
      expect(await disable()).toMatchObject({ enabled: false, disabledReason: 'manual' })
      await set(webhook.id, disabledBy('failures'))
      expect(await disable()).toMatchObject({ enabled: false, disabledReason: 'failures' })
    })
  })

  describe('rotating the secret', () => {
    const secretsOf = async (id: string) => signingSecretsOf(masterKey, await endpoint(id), isoTime(clock.now()))

    test('invalidates the earlier one at once, unless an overlap is requested', async () => {
      const { webhook, secret: first } = await create()
      const answer = await call('POST', `${PATH}/${webhook.id}/rotate-secret`, {})
      const { secret: second } = WebhookSecretResponse.parse(answer.body)
      expect(answer).toMatchObject({ status: 200, headers: { 'cache-control': 'no-store' } })
      expect(second).not.toBe(first)
      expect(await secretsOf(webhook.id)).toEqual([second])
    })

    test('with an overlap both sign, the newest first, until it ends; another rotation invalidates the oldest', async () => {
      const { webhook, secret: first } = await create()
      const rotate = async () => {
        const answer = await call('POST', `${PATH}/${webhook.id}/rotate-secret`, { overlap_seconds: 60 })
        return WebhookSecretResponse.parse(answer.body)
      }
      const { secret: second, webhook: rotated } = await rotate()
      expect(rotated.previousSecretUntil).toBe(isoTime(clock.now() + 60_000))
      expect(await secretsOf(webhook.id)).toEqual([second, first])
      const { secret: third } = await rotate()
      expect(await secretsOf(webhook.id)).toEqual([third, second])
      clock.advance(59_999)
      expect(await secretsOf(webhook.id)).toEqual([third, second])
      clock.advance(1)
      expect(await secretsOf(webhook.id)).toEqual([third])
      expect((await call('GET', `${PATH}/${webhook.id}`)).body.webhook.previousSecretUntil).toBeNull()
    })

    test.each([-1, 1.5, '60', 604_801])('rejects an overlap of %s', async (overlap_seconds) => {
      const { webhook } = await create()
      const answer = await call('POST', `${PATH}/${webhook.id}/rotate-secret`, { overlap_seconds })
      expect(answer).toMatchObject({ status: 400, body: { error: { details: { field: 'overlap_seconds' } } } })
    })
  })

  test('deleting cancels pending deliveries and keeps them in the log', async () => {
    const { webhook } = await create()
    await addDelivery(webhook.id, 'held')
    await addDelivery(webhook.id, 'delivered')
    expect(await call('DELETE', `${PATH}/${webhook.id}`)).toMatchObject({ status: 200, body: { success: true } })
    expect(await call('GET', `${PATH}/${webhook.id}`)).toMatchObject({ status: 404 })
    const { deliveries } = (await call('GET', `/api/admin/deliveries?webhookId=${webhook.id}`)).body
    expect(deliveries.map(({ state }: { state: string }) => state).sort()).toEqual(['cancelled', 'delivered'])
  })

  describe('the test route', () => {
    test('returns 202 with a delivery of webhook:test to this endpoint only', async () => {
      const { webhook } = await create({ events: ['dlp:incident'] })
      await create()
      const answer = await call('POST', `${PATH}/${webhook.id}/test`)
      expect(answer.status).toBe(202)
      const { delivery_id } = DeliveryAcceptedResponse.parse(answer.body)
      const shown = await call('GET', `/api/admin/deliveries/${delivery_id}`)
      expect(ShowDeliveryResponse.parse(shown.body).delivery).toMatchObject({
        id: delivery_id,
        webhookId: webhook.id,
        eventType: 'webhook:test',
        isTest: true,
        event: {
          id: expect.stringMatching(/^evt_test_/),
          type: 'webhook:test',
          created: Math.floor(clock.now() / 1000),
          data: { message: expect.any(String), endpointId: webhook.id },
        },
      })
      expect((await deliveries()).map(({ endpoint_id }) => endpoint_id)).toEqual([webhook.id])
    })

    test('returns 409 WEBHOOK_DISABLED while the webhook is disabled', async () => {
      const { webhook } = await create({ enabled: false })
      const answer = await call('POST', `${PATH}/${webhook.id}/test`)
      expect(answer).toMatchObject({ status: 409, body: { error: { code: 'WEBHOOK_DISABLED' } } })
      expect(await deliveries()).toEqual([])
    })
  })

  describe('the log of deliveries', () => {
    test('is paged, newest first, and filtered by webhook, state and event', async () => {
      const { webhook: one } = await create()
      const { webhook: other } = await create()
      const rows = []
      for (const [at, state] of (['delivered', 'failed', 'held'] as const).entries())
        rows.push(await addDelivery(one.id, state, isoTime(START + at)))
      await addDelivery(other.id, 'failed', isoTime(START + 9))
      const list = async (query: string) => {
        const answer = await call('GET', `/api/admin/deliveries?${query}`)
        return ListDeliveriesResponse.parse(answer.body)
      }
      const ofOne = await list(`webhookId=${one.id}&limit=2`)
      expect(ofOne.deliveries.map(({ id }) => id)).toEqual([rows[2]?.id, rows[1]?.id])
      expect(ofOne.pagination).toEqual({ page: 1, limit: 2, total: 3, pages: 2 })
      expect((await list(`webhookId=${one.id}&state=failed`)).deliveries.map(({ id }) => id)).toEqual([rows[1]?.id])
      expect((await list('event=dlp:incident')).deliveries).toEqual([])
      expect((await list('event=pii:incident')).pagination.total).toBe(4)
    })

    test('shows a delivery with the start of the last response and the event as it was sent', async () => {
      const { webhook } = await create()
      const { id, event_id } = await addDelivery(webhook.id, 'failed')
      const last = { last_status: 500, last_error: null, last_duration_ms: 12, last_response: 'out of order' }
      await db().updateTable('webhook_deliveries').set(last).where('id', '=', id).execute()
      const { delivery } = ShowDeliveryResponse.parse((await call('GET', `/api/admin/deliveries/${id}`)).body)
      expect(delivery).toMatchObject({
        state: 'failed',
        lastStatus: 500,
        lastResponse: 'out of order',
        nextAttemptAt: null,
        event: { id: event_id, type: 'pii:incident', created: START / 1000 - 60, data: { incidentId: 'i1' } },
      })
    })

    test.each(['nothing', randomUUID()])('returns 404 DELIVERY_NOT_FOUND for %s', async (id) => {
      for (const [method, path] of [
        ['GET', `/api/admin/deliveries/${id}`],
        ['POST', `/api/admin/deliveries/${id}/resend`],
      ] as const)
        expect(await call(method, path)).toMatchObject({ status: 404, body: { error: { code: 'DELIVERY_NOT_FOUND' } } })
    })

    test('resending creates a separate delivery of the same event to the same webhook', async () => {
      const { webhook } = await create()
      const sent = await addDelivery(webhook.id, 'delivered')
      const answer = await call('POST', `/api/admin/deliveries/${sent.id}/resend`)
      expect(answer.status).toBe(202)
      const { delivery_id } = DeliveryAcceptedResponse.parse(answer.body)
      expect(delivery_id).not.toBe(sent.id)
      const again = (await deliveries()).find(({ id }) => id === delivery_id)
      expect(again).toMatchObject({ endpoint_id: webhook.id, event_id: sent.event_id, resend_of: sent.id })
      expect((await deliveries()).find(({ id }) => id === sent.id)).toMatchObject({ state: 'delivered' })
    })

    test('deliveries of a deleted or disabled webhook are not resent', async () => {
      const { webhook } = await create()
      const sent = await addDelivery(webhook.id, 'delivered')
      await set(webhook.id, disabledBy('manual'))
      const resend = async () => (await call('POST', `/api/admin/deliveries/${sent.id}/resend`)).body.error.code
      expect(await resend()).toBe('WEBHOOK_DISABLED')
      await call('DELETE', `${PATH}/${webhook.id}`)
      expect(await resend()).toBe('WEBHOOK_NOT_FOUND')
      expect(await deliveries()).toHaveLength(1)
    })

    test('a delivery whose event was deleted is not resent', async () => {
      const { webhook } = await create()
      const sent = await addDelivery(webhook.id, 'delivered')
      await db().deleteFrom('outbox_events').where('id', '=', sent.event_id).execute()
      const answer = await call('POST', `/api/admin/deliveries/${sent.id}/resend`)
      expect(answer).toMatchObject({ status: 404, body: { error: { code: 'DELIVERY_NOT_FOUND' } } })
    })
  })

  describe('recovering', () => {
    const recover = async (id: string, since: string) => {
      const answer = await call('POST', `${PATH}/${id}/recover`, { since })
      expect(answer.status, answer.text).toBe(200)
      return RecoverResponse.parse(answer.body)
    }
    const statesOf = async () => new Map((await deliveries()).map(({ id, state }) => [id, state]))

    test('sends failed or held deliveries since then under their own ids, and leaves the rest', async () => {
      const { webhook } = await create()
      const { webhook: other } = await create()
      const earlier = await addDelivery(webhook.id, 'failed', isoTime(START - 1))
      const failed = await addDelivery(webhook.id, 'failed', isoTime(START))
      const held = await addDelivery(webhook.id, 'held', isoTime(START + 1))
      const delivered = await addDelivery(webhook.id, 'delivered', isoTime(START + 1))
      const ofOther = await addDelivery(other.id, 'held', isoTime(START + 1))
      // The same instant in another time zone.
      const { recovered, more } = await recover(webhook.id, '2026-03-01T14:00:00+02:00')
      expect({ recovered, more }).toEqual({ recovered: 2, more: false })
      const states = await statesOf()
      expect([failed, held].map(({ id }) => states.get(id))).toEqual(['pending', 'pending'])
      expect([earlier, delivered, ofOther].map(({ id }) => states.get(id))).toEqual(['failed', 'delivered', 'held'])
    })

    test('delivers events to which the webhook did not subscribe when they happened, once, and none from before it', async () => {
      const { webhook } = await create({ events: ['dlp:incident'] })
      await addEvent({ created_at: isoTime(clock.now() - 1) })
      const missed = await addEvent({ created_at: isoTime(clock.now() + 1) })
      await addEvent({ created_at: isoTime(clock.now() + 1), type: 'webhook:test' })
      const since = isoTime(START - 3_600_000)
      expect((await recover(webhook.id, since)).recovered).toBe(0)
      await call('PUT', `${PATH}/${webhook.id}`, { events: ['pii:incident'] })
      expect((await recover(webhook.id, since)).recovered).toBe(1)
      expect((await recover(webhook.id, since)).recovered).toBe(0)
      expect((await deliveries()).map(({ event_id }) => event_id)).toEqual([missed.id])
    })

    test('sends no delivery whose event was deleted, because it would wait forever', async () => {
      const { webhook } = await create()
      const lost = await addDelivery(webhook.id, 'failed', isoTime(START))
      const kept = await addDelivery(webhook.id, 'failed', isoTime(START + 1))
      await db().deleteFrom('outbox_events').where('id', '=', lost.event_id).execute()
      expect(await recover(webhook.id, isoTime(START))).toMatchObject({ recovered: 1, more: false })
      const states = await statesOf()
      expect([lost, kept].map(({ id }) => states.get(id))).toEqual(['failed', 'pending'])
    })

    test(`sends ${WEBHOOK_RECOVERED} at a time, the oldest first`, async () => {
      const { webhook } = await create()
      const events = Array.from({ length: WEBHOOK_RECOVERED + 2 }, (_, at) =>
        eventRow({ created_at: isoTime(START + at) }),
      )
      await insertRows(db(), 'outbox_events', events)
      const rows = events.map((event, at) => ({
        ...newDelivery(event, webhook.id, START + at),
        state: 'held' as const,
      }))
      await insertRows(db(), 'webhook_deliveries', rows)
      expect(await recover(webhook.id, isoTime(START))).toMatchObject({ recovered: WEBHOOK_RECOVERED, more: true })
      const states = await statesOf()
      expect(rows.slice(-2).map(({ id }) => states.get(id))).toEqual(['held', 'held'])
      expect(await recover(webhook.id, isoTime(START))).toMatchObject({ recovered: 2, more: false })
    })

    test('needs a valid time and an enabled webhook', async () => {
      const { webhook } = await create()
      for (const since of [undefined, 'yesterday', '2026-02-30T00:00:00Z', '2026-03-01'])
        expect(await call('POST', `${PATH}/${webhook.id}/recover`, { since })).toMatchObject({
          status: 400,
          body: { error: { details: { field: 'since' } } },
        })
      await set(webhook.id, disabledBy('failures'))
      const answer = await call('POST', `${PATH}/${webhook.id}/recover`, { since: isoTime(START) })
      expect(answer).toMatchObject({ status: 409, body: { error: { code: 'WEBHOOK_DISABLED' } } })
    })
  })

  test.each([
    ['GET', ''],
    ['PUT', ''],
    ['DELETE', ''],
    ['POST', '/rotate-secret'],
    ['POST', '/test'],
    ['POST', '/recover'],
  ])('%s {webhookId}%s returns 404 WEBHOOK_NOT_FOUND for an unknown id', async (method, suffix) => {
    const bodies: Record<string, object> = { '': { url: HOOK.url }, '/recover': { since: isoTime(START) } }
    const body = bodies[suffix] ?? {}
    for (const id of [newId(), 'nothing']) {
      const answer = await call(method, `${PATH}/${id}${suffix}`, method === 'GET' ? undefined : body)
      expect(answer).toMatchObject({ status: 404, body: { error: { code: 'WEBHOOK_NOT_FOUND' } } })
      StructuredError.parse(answer.body)
    }
  })

  test('audit entries name the receiver by its origin and contain neither the secret nor the rest of the URL', async () => {
    const { webhook, secret } = await create()
    await call('PUT', `${PATH}/${webhook.id}`, { url: `${HOOK.url}2` })
    await call('POST', `${PATH}/${webhook.id}/rotate-secret`, { overlap_seconds: 5 })
    await call('DELETE', `${PATH}/${webhook.id}`)
    const entries = (await recordedChanges(db())).filter(({ resource_id }) => resource_id === webhook.id)
    expect(entries.map(({ operation }) => operation).sort()).toEqual(['create', 'delete', 'rotate', 'update'])
    expect(JSON.stringify(entries)).toContain('http://127.0.0.1:61999')
    expect(JSON.stringify(entries)).not.toMatch(/whsec_|of-the-receiver/)
    expect(JSON.stringify([entries, shared.current.log])).not.toContain(secret)
  })
})
