import { once } from 'node:events'
import { connect } from 'node:net'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import { addKey, addUser } from '../../../accounts.ts'
import { deferred } from '../../../deferred.ts'
import { describeEachEngine } from '../../../engines.ts'
import { type Gateway, startGateway, textOf, toFrames } from '../../../harness.ts'
import { chatStream, replyRaw, replySteps } from '../../../upstream.ts'

const usage = { prompt_tokens: 12, completion_tokens: 7 }

/** A second user of the gateway's tenant, with a key of their own. */
async function addSecondUser(gateway: Gateway, { status = 1, expiresAt = null as string | null } = {}) {
  const { db } = gateway.app
  const { id: tenant_id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
  const user = await addUser(db, { tenant_id, status })
  const { secret: key } = await addKey(db, user, { expires_at: expiresAt })
  return { id: user.id, key }
}

describeEachEngine('who pays', (engine) => {
  test('the owner of the key; only an administrator may name another user', async () => {
    const gateway = await startGateway({ engine })
    const { id, key } = await addSecondUser(gateway)
    await gateway.chat({ prompt: 'hi' }, { key })
    await gateway.chat({ prompt: 'hi', user_id: id.toUpperCase() })
    const refused = await gateway.chat({ prompt: 'hi', user_id: id }, { key })
    expect([refused.status, refused.body]).toEqual([403, expect.objectContaining({ error: 'Access denied' })])
    expect((await gateway.usage()).map((row) => row.user_id)).toEqual([id, id])
  })

  test('an expired key and the key of an inactive user are 401', async () => {
    const gateway = await startGateway({ engine })
    const expired = await addSecondUser(gateway, { expiresAt: new Date(Date.now() - 1000).toISOString() })
    const inactive = await addSecondUser(gateway, { status: 0 })
    for (const { key } of [expired, inactive]) {
      const { status, body } = await gateway.chat({ prompt: 'hi' }, { key })
      expect([status, body]).toEqual([401, expect.objectContaining({ error: 'Invalid API key' })])
    }
  })
})

describeEachEngine('the commit', (engine) => {
  test('that fails makes the request fail with 500', async () => {
    const gateway = await startGateway({ engine })
    await sql`drop table evidence_commits`.execute(gateway.app.db)
    const whole = await gateway.chat({ prompt: 'hi' })
    expect([whole.status, whole.body]).toEqual([500, expect.objectContaining({ error: 'Internal server error' })])
  })

  test('that fails ends a stream with an error frame, without [DONE]', async () => {
    const gateway = await startGateway({ engine })
    await sql`drop table evidence_commits`.execute(gateway.app.db)
    gateway.upstream.script(replyRaw(chatStream(['all of it'], { usage })))
    const { frames, done } = await gateway.stream({ prompt: 'hi' })
    expect(done).toBe(false)
    expect(frames.map((frame) => frame.type)).toEqual(['metadata', 'chunk', 'error'])
  })
})

test('the usage frame and [DONE] are sent only after the commit', async () => {
  const gateway = await startGateway()
  // The key is cached, so the request uses the store only for its commit.
  await gateway.chat({ prompt: 'hi' })
  const other = await openDatabase({ kind: 'sqlite', dataDir: gateway.config.dataDir })
  const held = deferred()
  const isLocked = deferred()
  const writer = other.transaction().execute(async (tx) => {
    await sql`update tenants set name = name`.execute(tx)
    isLocked.resolve()
    await held.promise
  })
  await isLocked.promise
  gateway.upstream.script(replySteps([chatStream(['all of it'], { usage })]))
  const answer = await gateway.openStream({ prompt: 'hi' })
  let text = ''
  while (!text.includes('all of it')) text += String((await answer.next()).value)
  const next = answer.next()
  // The upstream has sent everything; only the commit is missing.
  for (let turn = 0; turn < 300; turn++) await new Promise((resolve) => setImmediate(resolve))
  expect(text).not.toContain('"usage"')
  held.resolve()
  await writer
  for (let step = await next; !step.done; step = await answer.next()) text += String(step.value)
  const { frames, done } = toFrames(text)
  expect([textOf(frames), done]).toEqual(['all of it', true])
  await other.destroy()
})

test('two pipelined chats whose client disconnects are both aborted and both billed', async () => {
  const gateway = await startGateway()
  const started = chatStream(['one '], { finishReason: null, done: false })
  gateway.upstream.script(replySteps([started], { ending: 'hang' }), replySteps([started], { ending: 'hang' }))
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
  const body = JSON.stringify({ prompt: 'hi', index: 'Zero-Knowledge', model: 'test/any', stream: true })
  const request =
    `POST /api/external/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${gateway.adminKey}\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  socket.write(request + request)
  await once(socket, 'data')
  const asked = [await gateway.upstream.nextRequest(), await gateway.upstream.nextRequest()]
  socket.destroy()
  await Promise.all(asked.map(({ aborted }) => aborted))
  await gateway.restart()
  const rows = await gateway.usage()
  expect(rows.every(({ outcome }) => outcome === 'aborted')).toBe(true)
  expect(rows.length).toBeGreaterThan(0)
})
