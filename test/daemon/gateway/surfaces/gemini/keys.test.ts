import { sql } from 'kysely'
import { request } from 'undici'
import { expect, test } from 'vitest'
import { newApiKey } from '../../../../../src/shared/ids.ts'
import { addKey, addUser } from '../../../../accounts.ts'
import { sharedGateway, startGateway } from '../../../../harness.ts'

const shared = sharedGateway()
const MODEL = '/v1beta/models/test/any:generateContent'
const hello = JSON.stringify({ contents: [{ parts: [{ text: 'Hi' }] }] })

async function ask(path: string, headers: Record<string, string> = {}) {
  const response = await request(`${shared.current.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: hello,
  })
  // biome-ignore lint/suspicious/noExplicitAny: tests read bodies of every shape
  return { status: response.statusCode, body: (await response.body.json()) as any }
}

async function newKey(): Promise<string> {
  const { db } = shared.current.app
  const { tenant_id } = await db.selectFrom('api_keys').select('tenant_id').executeTakeFirstOrThrow()
  return (await addKey(db, await addUser(db, { tenant_id }))).secret
}

test('a key is accepted in x-goog-api-key, in the address, as a bearer token and in x-api-key', async () => {
  const key = await newKey()
  for (const [path, headers] of [
    [MODEL, { 'x-goog-api-key': key }],
    [`${MODEL}?key=${key}`, {}],
    [`${MODEL}?%6Bey=${key}`, {}],
    [`${MODEL}?key=${key}`, { 'x-goog-api-key': key }],
    [MODEL, { authorization: `Bearer ${key}` }],
    [MODEL, { 'x-api-key': key, 'x-goog-api-key': key }],
  ] as const) {
    expect((await ask(path, headers)).status, path).toBe(200)
  }
})

test('different keys, an unknown key and no key get a 401 in the shape of Google', async () => {
  const [key, other] = [await newKey(), await newKey()]
  for (const [path, headers] of [
    [`${MODEL}?key=${key}`, { 'x-goog-api-key': other }],
    [`${MODEL}?key=${key}&key=${other}`, {}],
    [MODEL, { 'x-goog-api-key': key, authorization: `Bearer ${other}` }],
    [MODEL, { 'x-goog-api-key': key, 'x-api-key': other }],
    [`${MODEL}?key=sk-unknown`, {}],
    [`${MODEL}?key=`, {}],
    [MODEL, {}],
  ] as const) {
    const { status, body } = await ask(path, headers)
    expect([status, body.error?.code, body.error?.status], path).toEqual([401, 401, 'UNAUTHENTICATED'])
    expect(JSON.stringify(body)).not.toContain(key)
  }
})

test('other routes do not accept a key in the address', async () => {
  const { adminKey, url } = shared.current
  for (const path of ['/v1/models', '/api/external/models', '/api/admin/users']) {
    const { statusCode, body } = await request(`${url}${path}?key=${adminKey}`)
    await body.dump()
    expect([401, 404]).toContain(statusCode)
  }
})

test('a key in an address is never logged, even if the request fails inside the gateway', async () => {
  const gateway = await startGateway()
  const { db } = gateway.app
  const key = newApiKey()
  await sql`alter table api_keys rename to api_keys_away`.execute(db)
  const response = await request(`${gateway.url}${MODEL}?key=${key}&alt=json`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: hello,
  })
  await response.body.dump()
  await sql`alter table api_keys_away rename to api_keys`.execute(db)
  expect(response.statusCode).toBeGreaterThanOrEqual(500)
  expect(gateway.log.map(({ facts }) => facts.route)).toContain(`POST ${MODEL}`)
  expect(JSON.stringify(gateway.log)).not.toContain(key)
})
