import { beforeAll, describe, expect, test } from 'vitest'
import { endpointOf } from '../../../src/daemon/platform/http/route.ts'
import { findNearestName } from '../../../src/shared/nearest-name.ts'
import { ChatRequest } from '../../../src/shared/wire/chat.ts'
import {
  GEMINI_COUNT_TOKENS_PATH,
  GENERATE_CONTENT_PATH,
  STREAM_GENERATE_CONTENT_PATH,
} from '../../../src/shared/wire/gemini.ts'
import { COUNT_TOKENS_PATH, MESSAGES_PATH } from '../../../src/shared/wire/messages.ts'
import { OPENAI_CHAT_PATH } from '../../../src/shared/wire/openai.ts'
import { PolicyCheckRequest } from '../../../src/shared/wire/policy-check.ts'
import { RESPONSES_PATH } from '../../../src/shared/wire/responses.ts'
import type { TestEngine } from '../../engines.ts'
import { sharedGateway } from '../../harness.ts'
import { createCalendar } from './calendar.ts'
import { definition, type JsonSchema, toInputSchema } from './generated-input.ts'
import { ROUTE_CALLS } from './route-calls.ts'
import { difference, dumpStore } from './store-dump.ts'
import { addWorld, freshName, type World } from './world.ts'

/** Declares these tests for one engine. Each engine has its own file, so that the files run in parallel. */
export function massAssignmentOf(engine: TestEngine): void {
  const shared = sharedGateway({ engine, clock: createCalendar() })
  let own: World
  let other: World

  beforeAll(async () => {
    const { db } = shared.current.app
    const { tenant_id } = await db.selectFrom('api_keys').select('tenant_id').executeTakeFirstOrThrow()
    own = await addWorld(db, 'ownland', tenant_id)
    other = await addWorld(db, 'otherland')
  })

  /** The effect of one request: its response, its upstream requests and its changed rows, without new ids. */
  async function effectOf(endpoint: string, at: number, extend: (body: object) => object) {
    const { app, upstream } = shared.current
    const row = ROUTE_CALLS[endpoint]
    const [method = '', pattern = ''] = endpoint.split(' ')
    const name = freshName(own)
    // Counters contain sums, so a second identical request would produce another sum.
    await app.db.deleteFrom('spend_counters').execute()
    const empty = await dumpStore(app.db)
    const target = (await row?.target?.(app.db, own)) ?? ''
    const before = await dumpStore(app.db)
    const calls = upstream.requests.length
    const body = extend(row?.bodies?.(own, name)[at] ?? {})
    const answer = await shared.current.call(method, pattern.replace(/\{.*\}/, target), body)
    const changed = difference(before, await dumpStore(app.db))
    const fresh = { name, known: idsIn(empty), target: idsIn(difference(empty, before).come) }
    return {
      status: answer.status,
      // An answer lists the unknown members that were not sent to the model.
      text: settled(
        endpoint === `POST ${RESPONSES_PATH}`
          ? withoutRequest(answer.text)
          : answer.text.replace(/,"dropped":\[[^\]]*\]/, ''),
        fresh,
      ),
      gone: changed.gone.map((one) => settled(one, fresh)).sort(),
      come: changed.come.map((one) => settled(one, fresh)).sort(),
      upstream: upstream.requests.slice(calls).map((request) => request.body),
    }
  }

  const withBodies = Object.entries(ROUTE_CALLS).flatMap(([endpoint, { bodies, status }]) =>
    (bodies?.(NOTHING, '') ?? []).map((_, at) => ({ endpoint, at, status })),
  )

  test('are sent to every route that accepts JSON', () => {
    const taking = shared.current.app.routes.filter(({ body }) => body).map(endpointOf)
    expect([...new Set(withBodies.map(({ endpoint }) => endpoint))].sort()).toEqual(taking.sort())
  })

  describe.each(withBodies)('$endpoint, body $at', ({ endpoint, at, status }) => {
    test('change nothing, whatever their name and position', async () => {
      const route = shared.current.app.routes.find((one) => endpointOf(one) === endpoint)
      if (!route?.body) throw new Error(`${endpoint} takes no JSON`)
      // The schema of policy checks accepts anything, because the response reports faults of the chat.
      const isChat = route.body === ChatRequest || route.body === PolicyCheckRequest
      const root = toInputSchema(isChat ? ChatRequest : route.body)
      const plain = await effectOf(endpoint, at, (body) => body)
      expect(plain.status, plain.text).toBe(status)
      for (const all of privileged(other)) {
        // A chat request is rejected if it misspells a member, such as `userId` for `user_id`.
        const fields = Object.fromEntries(Object.entries(all).filter(([name]) => !isChat || !isSlip(name)))
        const sent = (body: object) => withFields(body, root, root, fields) as object
        const effect = await effectOf(endpoint, at, sent)
        // Guards inspect and record the members that are passed on to a provider with the same API.
        if (PASSING_ON.has(endpoint)) {
          const upstream = effect.upstream.map((body, at) => knownIn(body, plain.upstream[at]))
          expect({ ...effect, upstream, come: [] }).toEqual({ ...plain, come: [] })
        } else expect(effect).toEqual(plain)
      }
    })
  })
}

/** Whether a chat request has a member with a similar name. */
const isSlip = (name: string): boolean => findNearestName(name, Object.keys(ChatRequest.shape)) !== undefined

/** Routes whose unknown members are sent to a provider with the same API. */
const PASSING_ON: ReadonlySet<string> = new Set(
  [
    ...[MESSAGES_PATH, COUNT_TOKENS_PATH, OPENAI_CHAT_PATH, RESPONSES_PATH],
    ...[GENERATE_CONTENT_PATH, STREAM_GENERATE_CONTENT_PATH, GEMINI_COUNT_TOKENS_PATH],
  ].map((path) => `POST ${path}`),
)

/** Returns the members of a body that the body of the plain request has too. */
const knownIn = (body: unknown, plain: unknown): unknown =>
  Object.fromEntries(Object.entries(body as object).filter(([name]) => Object.hasOwn(plain as object, name)))

/** Answers of the Responses API return members of the request, and list those that were dropped. */
function withoutRequest(text: string): string {
  const { tools, tool_choice, text: format, gateway, ...answer } = JSON.parse(text)
  const { dropped, ...metadata } = gateway ?? {}
  return JSON.stringify({ ...answer, gateway: metadata })
}

const NOTHING = { userId: '', roleId: '', groupId: '', indexName: '', webhookId: '' }

/** Fields of every resource that requests must not set, each with harmful values. */
function privileged({ tenantId, userId, roleId, indexName }: World): Record<string, unknown>[] {
  const rights = [{ section: 'settings', level: 'admin' }]
  const harmful: Record<string, [unknown, unknown]> = {
    id: [userId, roleId],
    _id: [userId, { $ne: null }],
    tenantId: [tenantId, { id: tenantId }],
    tenant: [tenantId, { id: tenantId }],
    userId: [userId, { id: userId }],
    user: [{ id: userId }, userId],
    ownerId: [userId, userId],
    groupId: [userId, roleId],
    roleId: [roleId, null],
    keyId: [userId, userId],
    apiKeyId: [userId, userId],
    role: ['admin', { name: 'admin' }],
    customRole: [{ id: roleId }, roleId],
    isSystem: [true, 1],
    isOperator: [true, 1],
    operator: [true, 1],
    isAdmin: [true, 1],
    admin: [true, 1],
    adminAccess: [true, 1],
    hasAdminPanelAccess: [true, 1],
    permissions: [rights, JSON.stringify(rights)],
    rights: [{ levels: { settings: 'admin' } }, rights],
    canInteractWithAi: [false, 0],
    status: [0, 'Disabled'],
    isActive: [false, 0],
    isVerified: [true, 1],
    mfaEnabled: [true, 1],
    license: ['Ultra', 'Early Access'],
    userLicense: ['Ultra', 'Ultra'],
    name: ['chosen', 'chosen'],
    username: ['chosen', 'chosen'],
    email: ['chosen@example.com', 'chosen@example.com'],
    password: ['chosen', 'chosen'],
    searchText: ['chosen', 'chosen'],
    userCount: [1000, -1],
    documentCount: [1000, -1],
    secret: [`sk-${'a'.repeat(64)}`, 'chosen'],
    secretHash: ['a'.repeat(64), 'chosen'],
    apiKey: [`sk-${'a'.repeat(64)}`, { id: userId }],
    settings: [{ adminAccess: true }, JSON.stringify({ adminAccess: true })],
    metadata: [{ isOperator: true }, {}],
    billingMode: ['usage-by-model', 'usage-by-model'],
    dollarLimitNanos: [null, 0],
    dollarLimit: [1_000_000, -1],
    allowedModels: [[], ['test/*']],
    namespace: [indexName, indexName],
    sharedIndexName: [indexName, indexName],
    type: ['personal', 'system'],
    createdAt: ['2001-01-01T00:00:00.000Z', 0],
    createdBy: [userId, { id: userId }],
    updatedAt: ['2001-01-01T00:00:00.000Z', 0],
    deletedAt: ['2001-01-01T00:00:00.000Z', 0],
    revokedAt: [null, '2001-01-01T00:00:00.000Z'],
    expiresAt: [null, '2001-01-01T00:00:00.000Z'],
    lastUsedAt: ['2001-01-01T00:00:00.000Z', null],
    lastActive: ['2001-01-01T00:00:00.000Z', null],
    requestId: ['chosen', 'chosen'],
    tokensUsed: [0, -1],
  }
  return [0, 1].map((at) => {
    const fields = Object.entries(harmful).flatMap(([name, values]) => {
      const snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
      return [name, snake].map((spelling) => [spelling, values[at]])
    })
    // Written as JSON, because an object literal cannot contain `__proto__` as an own property.
    const powers = '{"isAdmin":true,"isOperator":true,"role":"admin"}'
    const prototypes = JSON.parse(`{"__proto__":${powers},"constructor":{"prototype":${powers}},"prototype":${powers}}`)
    return { ...Object.fromEntries(fields), ...prototypes }
  })
}

/**
 * Adds these fields to each object of a value, except fields that the schema documents there. Objects that reject
 * unknown fields stay unchanged.
 */
function withFields(value: unknown, schema: JsonSchema, root: JsonSchema, fields: Record<string, unknown>): unknown {
  const options = alternatives(schema, root)
  if (Array.isArray(value)) {
    const items = { anyOf: options.flatMap((one) => one.items ?? []) }
    return value.map((entry) => withFields(entry, items, root, fields))
  }
  if (typeof value !== 'object' || value === null) return value
  const members = new Map<string, JsonSchema[]>()
  for (const [name, one] of options.flatMap(({ properties = {} }) => Object.entries(properties))) {
    members.set(name, [...(members.get(name) ?? []), one])
  }
  const isClosed = options.some(
    ({ additionalProperties, propertyNames }) => additionalProperties === false || propertyNames !== undefined,
  )
  const extra = isClosed ? [] : Object.entries(fields).filter(([name]) => !members.has(name))
  const own = Object.entries(value).map(([name, child]) => [
    name,
    withFields(child, { anyOf: members.get(name) ?? [] }, root, fields),
  ])
  return Object.fromEntries([...extra, ...own])
}

/** Resolves references and alternatives of a schema. Returns all schemas that a value may match. */
function alternatives(schema: JsonSchema, root: JsonSchema): JsonSchema[] {
  const choices = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])]
  if (schema.$ref !== undefined) choices.push(definition(schema.$ref, root))
  return [schema, ...choices.flatMap((one) => alternatives(one, root))]
}

const ID = /(?<![0-9a-f])[0-9a-f]{24}(?![0-9a-f])/g

const idsIn = (rows: readonly string[]): Set<string> => new Set(rows.flatMap((row) => row.match(ID) ?? []))

/** Replaces everything that is new in each request by placeholders. Ids that existed before stay. */
function settled(
  text: string,
  { name, known, target }: { name: string; known: ReadonlySet<string>; target: ReadonlySet<string> },
): string {
  return (
    text
      .replaceAll(name, '<name>')
      .replace(/(sk-|whsec_)[0-9a-f]{64}/g, '<secret>')
      .replace(/"v\d\.[\w.-]{60,}"/g, '"<sealed>"')
      // A signed export names the hash of its manifest, and counts the entries so far.
      .replace(/\/exports\/[0-9a-f]{64}/g, '/exports/<hash>')
      .replace(/(\\"entries\\"):\d+/g, '$1:0')
      .replace(/(\\?")([0-9a-f]{64})+\1/g, '$1<hash>$1')
      .replace(/"(signature|note)":"[^"]+"/g, '"$1":"<signed>"')
      .replace(/"(seq|tree_size)":\d+/g, '"$1":0')
      .replace(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, '<uuid>')
      .replace(/\b[0-9a-f]{32}\b/g, '<commit>')
      .replace(ID, (id) => (known.has(id) ? id : target.has(id) ? '<target>' : '<new>'))
      .replace(/ownland-\d+/g, (one) => (known.has(one) ? one : '<target name>'))
      // Derived from the name.
      .replace(/"name_skeleton":"[^"]*"/g, '"name_skeleton":""')
      .replace(/(latency_ms|latencyMs|first_token_ms)(\\?"):\d+/g, '$1$2:0')
      // The stored form of a receipt has the hashes of request and answer, and the times, as lists.
      .replace(/(\\?"(?:sha256|took)\\?":)\[[^\]]*\]/g, '$1[]')
  )
}
