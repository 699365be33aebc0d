import { beforeAll, describe, expect, test } from 'vitest'
import { newId } from '../../../src/shared/ids.ts'
import { CHAT_PATH } from '../../../src/shared/wire/chat.ts'
import { COMPLETIONS_PATH } from '../../../src/shared/wire/completions.ts'
import {
  BATCH_EMBED_CONTENTS_PATH,
  EMBED_CONTENT_PATH,
  GEMINI_COUNT_TOKENS_PATH,
  GENERATE_CONTENT_PATH,
  STREAM_GENERATE_CONTENT_PATH,
} from '../../../src/shared/wire/gemini.ts'
import { COUNT_TOKENS_PATH, MESSAGES_PATH } from '../../../src/shared/wire/messages.ts'
import { MODERATIONS_PATH } from '../../../src/shared/wire/moderations.ts'
import { OPENAI_CHAT_PATH, OPENAI_EMBEDDINGS_PATH } from '../../../src/shared/wire/openai.ts'
import { RERANK_PATH } from '../../../src/shared/wire/rerank.ts'
import { RESPONSES_PATH } from '../../../src/shared/wire/responses.ts'
import { addKey, addUser } from '../../accounts.ts'
import { describeEachEngine } from '../../engines.ts'
import { type Answer, sharedGateway } from '../../harness.ts'
import { type RecordedChange, recordedChanges } from '../../recorded-changes.ts'
import { MULTIPART_BODY, ROUTE_CALLS, type RouteCall } from './route-calls.ts'
import { addWorld, freshName, nothing, type World } from './world.ts'

/** Model requests create usage records rather than audit entries. */
const MODEL_REQUESTS = [
  ...[CHAT_PATH, OPENAI_CHAT_PATH, OPENAI_EMBEDDINGS_PATH, RESPONSES_PATH, MESSAGES_PATH, COUNT_TOKENS_PATH],
  ...[COMPLETIONS_PATH, MODERATIONS_PATH, RERANK_PATH, GENERATE_CONTENT_PATH, STREAM_GENERATE_CONTENT_PATH],
  ...[GEMINI_COUNT_TOKENS_PATH, EMBED_CONTENT_PATH, BATCH_EMBED_CONTENTS_PATH],
].map((path) => `POST ${path}`)
/** Routes that look like changes but only respond. */
const DRY_RUNS = [
  'POST /api/admin/providers/{name}/test',
  'POST /api/external/smltp-policies/diff',
  'POST /api/admin/guard-rules/simulate',
  'POST /api/external/policy-check',
  'POST /api/external/prompt-shield/scan',
  'POST /api/external/prompt-shield/scan-output',
  'POST /api/external/prompt-shield/scan-conversation',
]
/** Stored answers belong to the user of the request, and are no settings. */
const OWN_ANSWERS = [
  'DELETE /api/external/v1/responses/{responseId}',
  'POST /api/external/v1/responses/{responseId}/cancel',
]
/** The routes that change something. */
// The rotation of the master key needs a second key in the configuration: rotation.test.ts checks its entry.
const CHANGES = Object.entries(ROUTE_CALLS).filter(
  ([endpoint, { status }]) =>
    status < 400 &&
    !endpoint.startsWith('GET ') &&
    ![...MODEL_REQUESTS, ...DRY_RUNS, ...OWN_ANSWERS].includes(endpoint),
)

type Presented = { key: string; keyId: string; userId: string }

describeEachEngine('the log of administrative changes', (engine) => {
  const shared = sharedGateway({ engine })
  let own: World
  let admin: Presented
  let operator: Presented
  let user: Presented

  beforeAll(async () => {
    const { db } = shared.current.app
    const operatorKey = await db.selectFrom('api_keys').selectAll().executeTakeFirstOrThrow()
    own = await addWorld(db, 'ownland', operatorKey.tenant_id)
    const owner = await db
      .selectFrom('users')
      .selectAll()
      .where('id', '=', operatorKey.user_id)
      .executeTakeFirstOrThrow()
    operator = {
      key: shared.current.adminKey,
      keyId: operatorKey.id,
      userId: owner.id,
    }
    admin = await present('admin')
    user = await present('user')
  })

  async function present(role: 'admin' | 'user'): Promise<Presented> {
    const { db } = shared.current.app
    const { id, tenant_id } = await addUser(db, { tenant_id: own.tenantId, role })
    const { row, secret } = await addKey(db, { id, tenant_id })
    return { key: secret, keyId: row.id, userId: id }
  }

  const entries = () => recordedChanges(shared.current.app.db)

  /** Sends one request and returns the audit entries that it created. */
  async function call(
    endpoint: string,
    row: RouteCall,
    { key, target = '', body }: { key: string; target?: string | undefined; body?: string },
  ): Promise<{ answer: Answer; added: RecordedChange[] }> {
    const known = new Set((await entries()).map(({ id }) => id))
    const [method = '', path = ''] = endpoint.split(' ')
    const good = row.bodies?.(own, freshName(own))[0] ?? (row.headers && MULTIPART_BODY)
    const options = { key, headers: { ...row.headers } }
    const answer = await shared.current.call(method, path.replace(/\{.*\}/, target), body ?? good, options)
    return { answer, added: (await entries()).filter(({ id }) => !known.has(id)) }
  }

  const targetOf = (row: RouteCall) => row.target?.(shared.current.app.db, own)

  describe.each(CHANGES)('%s', (endpoint, row) => {
    const isTenants = endpoint.includes('/tenants')

    test('leaves exactly one entry with the caller, the action and the target', async () => {
      const caller = row.access === 'operator' ? operator : admin
      const target = await targetOf(row)
      const { answer, added } = await call(endpoint, row, { key: caller.key, target })
      expect(answer.status, answer.text).toBe(row.status)
      const expected = {
        tenant_id: own.tenantId,
        actor: 'key',
        user_id: caller.userId,
        key_id: caller.keyId,
        request_id: answer.headers['x-request-id'],
        endpoint,
        result: 'success',
        // Policies are identified by name, exports and keys by hash.
        resource_id: expect.stringMatching(/^([0-9a-f]{24}|ownland-\d+|[0-9a-f]{64}|[\w-]{43}|configuration)$/),
        description: expect.stringMatching(/^External API: \S/),
      }
      const id = /^[0-9a-f]{24}$/.test(target ?? '') ? { resource_id: target } : {}
      expect(added.filter((entry) => entry.tenant_id === own.tenantId)).toMatchObject([{ ...expected, ...id }])
      // A tenant also receives entries about changes by the operator, but without the operator's identity.
      const nobody = { actor: 'operator', user_id: null, key_id: null }
      const theirs = isTenants ? [{ ...expected, ...nobody, tenant_id: answer.body.tenant?.id ?? target }] : []
      expect(added.filter((entry) => entry.tenant_id !== own.tenantId)).toMatchObject(theirs)
    })

    test('leaves no entry when it is rejected', async () => {
      const target = await targetOf(row)
      const caller = row.access === 'operator' ? operator : admin
      const missing = row.target && /^[0-9a-f]{24}$/.test(target ?? '') ? newId() : nothing().indexName
      const refused = [
        ...(row.access === 'key' ? [] : [{ key: user.key, target, status: 403 }]),
        ...(row.target ? [{ key: caller.key, target: missing, status: 404 }] : []),
        ...(row.bodies ? [{ key: caller.key, target, body: '[7]', status: 400 }] : []),
        ...(row.bodies ? [{ key: caller.key, target, body: '{', status: 400 }] : []),
      ]
      for (const { status, ...request } of refused) {
        const { answer, added } = await call(endpoint, row, request)
        expect({ status: answer.status, added }).toEqual({ status, added: [] })
      }
    })
  })

  test('contains no secret, nor data from which a secret could be derived', async () => {
    const log = JSON.stringify(await shared.current.app.db.selectFrom('evidence_entries').selectAll().execute())
    expect(log).not.toMatch(/sk-[0-9a-f]{64}/)
    const keys = await shared.current.app.db.selectFrom('api_keys').select('secret_hash').execute()
    expect(keys.filter(({ secret_hash }) => log.includes(secret_hash))).toEqual([])
  })
})
