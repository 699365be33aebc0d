import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { withEarlierItems } from '../../../../../src/daemon/gateway/surfaces/responses/continued.ts'
import { createResponseStore, type ResponseStore } from '../../../../../src/daemon/gateway/surfaces/responses/store.ts'
import type { Caller } from '../../../../../src/daemon/platform/http/caller.ts'
import { RequestAborted } from '../../../../../src/daemon/platform/http/request-aborted.ts'
import { createMasterKey } from '../../../../../src/daemon/platform/secrets/seal.ts'
import { DAY_MS } from '../../../../../src/shared/time.ts'
import { KeySettings } from '../../../../../src/shared/wire/keys.ts'
import { ResponsesRequest } from '../../../../../src/shared/wire/responses.ts'
import { addKey, addUser } from '../../../../accounts.ts'
import { describeEachEngine } from '../../../../engines.ts'
import { createFakeClock } from '../../../../fake-clock.ts'
import { type Gateway, startGateway } from '../../../../harness.ts'
import { chatJson, chatStream, replyJson, replySteps } from '../../../../upstream.ts'
import { TEST_MASTER_KEY } from '../../../../webhook-rows.ts'
import { addGuardedTenant } from '../../chat/guarded-tenant.ts'

const responses = { store: true }
const settings = {
  dailyLimit: null,
  monthlyLimit: null,
  rateLimit: { requestsPerMinute: null, requestsPerHour: null },
}
const hello = { model: 'test/any', input: 'Where is the lift?' }
const usage = { prompt_tokens: 9, completion_tokens: 4 }

const clientOf = ({ url, adminKey }: Gateway, apiKey = adminKey) =>
  new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0 })
const failureOf = (call: Promise<unknown>) => call.catch((error: unknown) => error)
const UNKNOWN = { status: 404, message: expect.stringContaining('not found') }

describeEachEngine('a stored answer', (engine) => {
  test('continues, is shown with its input, and is deleted', async () => {
    const gateway = await startGateway({ engine, responses })
    const client = clientOf(gateway)
    gateway.upstream.script(
      replyJson(chatJson('On the left.', { usage })),
      replySteps([chatStream(['Yes', '.'], { usage })]),
      replyJson(chatJson('Bye.', { usage })),
    )
    const first = await client.responses.create({ ...hello, instructions: 'Be brief.', metadata: { team: 'desk' } })
    expect(first).toMatchObject({ store: true, previous_response_id: null })
    const second = await client.responses
      .stream({ model: 'test/any', input: 'Really?', previous_response_id: first.id })
      .finalResponse()
    expect(second).toMatchObject({ previous_response_id: first.id, output_text: 'Yes.' })
    await client.responses.create({
      model: 'test/any',
      previous_response_id: second.id,
      input: [{ role: 'user', content: 'Bye' }],
    })
    expect(gateway.upstream.requests.at(-1)?.body).toMatchObject({
      messages: [
        { role: 'user', content: 'Where is the lift?' },
        { role: 'assistant', content: 'On the left.' },
        { role: 'user', content: 'Really?' },
        { role: 'assistant', content: 'Yes.' },
        { role: 'user', content: 'Bye' },
      ],
    })
    const shown = await client.responses.retrieve(first.id)
    expect(shown).toMatchObject({
      id: first.id,
      status: 'completed',
      output_text: 'On the left.',
      metadata: { team: 'desk' },
    })
    const items = await client.responses.inputItems.list(second.id, { order: 'asc', limit: 2 })
    expect(items.data).toMatchObject([{ role: 'user', content: 'Where is the lift?' }, { role: 'assistant' }])
    expect(items.has_more).toBe(true)
    expect((await items.getNextPage()).data).toMatchObject([{ content: 'Really?' }])

    const [said] = first.output
    const reference = { type: 'item_reference' as const, id: said?.id ?? '' }
    await client.responses.create({ model: 'test/any', input: [reference, { role: 'user', content: 'Again?' }] })
    expect(gateway.upstream.requests.at(-1)?.body).toMatchObject({
      messages: [{ role: 'assistant', content: 'On the left.' }, { content: 'Again?' }],
    })

    await gateway.restart()
    const again = clientOf(gateway)
    expect(await failureOf(again.responses.cancel(first.id))).toMatchObject({ status: 400 })
    await again.responses.delete(first.id)
    const calls: Promise<unknown>[] = [
      again.responses.retrieve(first.id),
      again.responses.delete(first.id),
      again.responses.cancel(first.id),
      again.responses.inputItems.list(first.id).then(({ data }) => data),
    ]
    for (const failure of await Promise.all(calls.map(failureOf))) expect(failure).toMatchObject(UNKNOWN)
    expect(await failureOf(again.responses.create({ ...hello, previous_response_id: first.id }))).toMatchObject({
      status: 400,
      code: 'previous_response_not_found',
    })
  })

  test('is encrypted, and unknown to other users and other tenants', async () => {
    const gateway = await startGateway({ engine, responses })
    const answer = await clientOf(gateway).responses.create(hello)
    const rows = await gateway.app.db.selectFrom('stored_responses').selectAll().execute()
    expect(rows.map(({ id }) => id)).toEqual([answer.id])
    expect(JSON.stringify(rows)).not.toContain('lift')
    const { key } = await addGuardedTenant(gateway, { policy: {}, settings })
    const { db } = gateway.app
    const { tenant_id } = await db.selectFrom('stored_responses').select('tenant_id').executeTakeFirstOrThrow()
    const colleague = await addKey(db, await addUser(db, { tenant_id }))
    for (const other of [key, colleague.secret].map((one) => clientOf(gateway, one))) {
      expect(await failureOf(other.responses.retrieve(answer.id))).toMatchObject(UNKNOWN)
      expect(await failureOf(other.responses.delete(answer.id))).toMatchObject(UNKNOWN)
      expect(await failureOf(other.responses.create({ ...hello, previous_response_id: answer.id }))).toMatchObject({
        status: 400,
        code: 'previous_response_not_found',
      })
    }
    expect(await clientOf(gateway).responses.retrieve(answer.id)).toMatchObject({ id: answer.id })
  })

  test('expires with the retention of its policy, at the latest after 30 days', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, responses, clock })
    const kept = async (days: number | null) => {
      const { key } = await addGuardedTenant(gateway, { policy: { retentionDays: days }, settings })
      const client = clientOf(gateway, key)
      return { client, answer: await client.responses.create(hello) }
    }
    const [short, long] = [await kept(2), await kept(null)]
    clock.advance(2 * DAY_MS - 1)
    expect(await short.client.responses.retrieve(short.answer.id)).toMatchObject({ id: short.answer.id })
    clock.advance(1)
    expect(await failureOf(short.client.responses.retrieve(short.answer.id))).toMatchObject(UNKNOWN)
    clock.advance(28 * DAY_MS)
    expect(await failureOf(long.client.responses.retrieve(long.answer.id))).toMatchObject(UNKNOWN)
  })
})

describeEachEngine('the text of a conversation', (engine) => {
  test('expires with the first stored answer that contains it', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, responses, clock })
    const client = clientOf(gateway)
    const first = await client.responses.create(hello)
    clock.advance(20 * DAY_MS)
    const continued = await client.responses.create({ ...hello, previous_response_id: first.id })
    const reference = { type: 'item_reference' as const, id: continued.output[0]?.id ?? '' }
    const referring = await client.responses.create({ ...hello, input: [reference, { role: 'user', content: 'Hi' }] })
    const own = await client.responses.create(hello)
    const rows = await gateway.app.db.selectFrom('stored_responses').select(['id', 'expires_at']).execute()
    const expiryOf = ({ id }: { id: string }) => rows.find((row) => row.id === id)?.expires_at
    expect(expiryOf(continued)).toBe(expiryOf(first))
    expect(expiryOf(referring)).toBe(expiryOf(first))
    expect(Date.parse(expiryOf(own) ?? '')).toBe(clock.now() + 30 * DAY_MS)
    clock.advance(10 * DAY_MS)
    expect(await failureOf(client.responses.retrieve(continued.id))).toMatchObject(UNKNOWN)
  })

  test('is deleted with its user', async () => {
    const gateway = await startGateway({ engine, responses })
    const { db } = gateway.app
    const kept = await clientOf(gateway).responses.create(hello)
    const { tenant_id } = await db.selectFrom('stored_responses').select('tenant_id').executeTakeFirstOrThrow()
    const user = await addUser(db, { tenant_id })
    const { secret } = await addKey(db, user)
    await clientOf(gateway, secret).responses.create(hello)
    const stored = () => db.selectFrom('stored_responses').select('id').execute()
    expect(await stored()).toHaveLength(2)
    expect((await gateway.call('DELETE', `/api/external/users/${user.id}`)).status).toBe(200)
    expect(await stored()).toEqual([{ id: kept.id }])
  })
})

test('a conversation may not become larger than a body of the key', async () => {
  const gateway = await startGateway({ responses })
  const { key, tenant } = await addGuardedTenant(gateway, { settings })
  const limits = { ...KeySettings.parse({}).limits, bodyBytes: 1_000 }
  const { secret: limited } = await addKey(tenant.db, tenant.admin, { settings: { ...settings, limits } })
  const input = 'x'.repeat(800)
  const first = await clientOf(gateway, key).responses.create({ ...hello, input })
  const next = { ...hello, input, previous_response_id: first.id }
  expect(await failureOf(clientOf(gateway, limited).responses.create(next))).toMatchObject({
    status: 400,
    message: expect.stringContaining('more than 1000 bytes together'),
  })
  expect(await clientOf(gateway, key).responses.create(next)).toMatchObject({ status: 'completed' })
})

describe('references to stored answers', () => {
  const request = (count: number) =>
    ResponsesRequest.parse({
      model: 'p/m',
      input: Array.from({ length: count }, (_, at) => ({ type: 'item_reference', id: `msg_${at}_0` })),
    })
  const caller = { tenantId: 't', userId: 'u' } as Caller
  /** A store without answers, which lists the reads. */
  function countingStore(onFind = () => {}) {
    const found: string[] = []
    const find = async (_: unknown, id: string) => {
      found.push(id)
      onFind()
      return undefined
    }
    return { found, store: { find } as unknown as ResponseStore }
  }
  const limits = { bodyBytes: 1_000_000 }

  test('of more than 20 answers are rejected before the store is read', async () => {
    const { found, store } = countingStore()
    const { signal } = new AbortController()
    await expect(withEarlierItems(request(21), { caller, signal }, store, limits)).rejects.toThrow(
      'refers to items of 21 stored answers; the limit is 20',
    )
    expect(found).toEqual([])
    await withEarlierItems(request(20), { caller, signal }, store, limits)
    expect(found).toHaveLength(20)
  })

  test('are not read any more if the client has left', async () => {
    const left = new AbortController()
    const { found, store } = countingStore(() => left.abort(new RequestAborted('client')))
    const reader = { caller, signal: left.signal }
    await expect(withEarlierItems(request(5), reader, store, limits)).rejects.toThrow(RequestAborted)
    expect(found).toHaveLength(1)
  })

  test('count as items, and are counted before the store is read', async () => {
    const gateway = await startGateway({ responses, requestLimits: { messages: 2 } })
    const { input } = request(21)
    const answer = await gateway.call('POST', '/v1/responses', { ...hello, input })
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('allows at most 2')])
  })
})

describe('an answer is not stored', () => {
  const stored = async ({ app }: Gateway) => (await app.db.selectFrom('stored_responses').select('id').execute()).length

  test('if the request says so, or the answer breaks off or is rejected', async () => {
    const gateway = await startGateway({ responses })
    const client = clientOf(gateway)
    expect(await client.responses.create({ ...hello, store: false })).toMatchObject({ store: false })
    gateway.upstream.script(
      replySteps([chatStream(['Hel'], { finishReason: null, done: false })]),
      replyJson({ error: {} }, { status: 500 }),
    )
    expect(await failureOf(client.responses.stream(hello).finalResponse())).toMatchObject({ code: 'server_error' })
    expect(await failureOf(client.responses.create(hello))).toMatchObject({ status: 502 })
    expect(await stored(gateway)).toBe(0)
  })

  test('if the operator has not turned storing on: then there are no routes for it', async () => {
    const gateway = await startGateway()
    const answer = await clientOf(gateway).responses.create({ ...hello, store: true })
    expect(answer).toMatchObject({ store: false, gateway: { dropped: [{ field: 'store', why: 'operator' }] } })
    expect(await failureOf(clientOf(gateway).responses.retrieve(answer.id))).toMatchObject({ status: 404 })
    expect(await stored(gateway)).toBe(0)
  })
})

test('a stored conversation that is larger than a body may be is rejected', async () => {
  const gateway = await startGateway({ responses, requestLimits: { bodyBytes: 70_000 } })
  const client = clientOf(gateway)
  const input = 'The lift is on the left. '.repeat(1_600)
  const { id } = await client.responses.create({ ...hello, input })
  expect(await failureOf(client.responses.create({ ...hello, input, previous_response_id: id }))).toMatchObject({
    status: 400,
    message: expect.stringContaining('more than 70000 bytes'),
  })
})

test('expired answers are purged', async () => {
  const clock = createFakeClock()
  const gateway = await startGateway({ responses, clock })
  const { db } = gateway.app
  const { purge } = createResponseStore({ db, clock, masterKey: createMasterKey(TEST_MASTER_KEY) })
  const stored = () => db.selectFrom('stored_responses').select('id').execute()
  await clientOf(gateway).responses.create(hello)
  clock.advance(30 * DAY_MS - 1)
  await purge()
  expect(await stored()).toHaveLength(1)
  clock.advance(1)
  await purge()
  expect(await stored()).toEqual([])
})
