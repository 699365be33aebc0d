import { once } from 'node:events'
import { IncomingMessage, ServerResponse } from 'node:http'
import { connect, Socket } from 'node:net'
import { sql } from 'kysely'
import { afterEach, expect, test } from 'vitest'
import {
  createIdempotency,
  IDEMPOTENCY_RESULT_BYTES,
  type ReplaySlot,
} from '../../../../src/daemon/gateway/governed/idempotency.ts'
import { NOBODY } from '../../../../src/daemon/platform/http/caller.ts'
import { Exchange } from '../../../../src/daemon/platform/http/exchange.ts'
import { RequestAborted } from '../../../../src/daemon/platform/http/request-aborted.ts'
import { type Reply, reply } from '../../../../src/daemon/platform/http/route.ts'
import { createMasterKey } from '../../../../src/daemon/platform/secrets/seal.ts'
import { newId } from '../../../../src/shared/ids.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { CHAT_PATH } from '../../../../src/shared/wire/chat.ts'
import { addKey, addUser } from '../../../accounts.ts'
import { deferred } from '../../../deferred.ts'
import { describeEachEngine, postgresEngine, type TestEngine } from '../../../engines.ts'
import { type Gateway, startGateway } from '../../../harness.ts'
import { chatJson, chatStream, replyJson } from '../../../upstream.ts'

const usage = { prompt_tokens: 3, completion_tokens: 2 }
const k1 = { headers: { 'idempotency-key': 'k-1' } }

const closing: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

/** A group of clients that is known to wait: `ask` returns after the client has joined the queue. */
async function lineUp(engine: TestEngine) {
  const { db, close } = await engine.open()
  const idempotency = createIdempotency({
    db,
    clock: systemClock,
    log: { warn() {} },
    masterKey: createMasterKey('ab'.repeat(32)),
  })
  const [tenantId, keyId] = [newId(), newId()]
  const shutdown = new AbortController()
  closing.push(async () => {
    idempotency.close()
    await close()
  })
  return {
    ask(produce: (replay: ReplaySlot) => Promise<Reply>): Promise<Reply | undefined> {
      const request = new IncomingMessage(new Socket())
      request.headers['idempotency-key'] = 'k-1'
      const exchange = new Exchange(request, new ServerResponse(request), new AbortController(), {
        bodyHeldBack: false,
        nowMs: systemClock.now(),
        startedMs: systemClock.monotonic(),
        shutdown: shutdown.signal,
      })
      exchange.caller = { ...NOBODY, tenantId, keyId }
      exchange.bodySha256 = '00'
      return idempotency.once(exchange, '/chat', async () => (replay) => produce(replay as ReplaySlot))
    },
    /** The fate of an answer's row in the ledger. */
    async store(row: ReturnType<ReplaySlot['toRow']>) {
      await db.deleteFrom('idempotency_results').where('request_id', '=', row.request_id).execute()
      await db.insertInto('idempotency_results').values(row).execute()
    },
  }
}

describeEachEngine('those who wait for the first with their Idempotency-Key', (engine) => {
  test('get the failure of the first request, and start none themselves', async () => {
    const line = await lineUp(engine)
    const held = deferred()
    const failure = new Error('the store is gone')
    let produced = 0
    const answers = Array.from({ length: 100 }, () =>
      line.ask(async () => {
        produced++
        await held.promise
        throw failure
      }),
    )
    held.resolve()
    const told = await Promise.allSettled(answers)
    expect(new Set(told.map((result) => result.status === 'rejected' && result.reason))).toEqual(new Set([failure]))
    expect(produced).toBe(1)
  })

  test('continue when its client disconnects, one of them as the new owner', async () => {
    const line = await lineUp(engine)
    const held = deferred()
    let produced = 0
    const leaving = line.ask(async () => {
      await held.promise
      throw new RequestAborted('client')
    })
    const answers = Array.from({ length: 10 }, () =>
      line.ask(async (replay) => {
        produced++
        await line.store(replay.toRow({ status: 200, contentType: 'application/json', body: '{"good":true}' }))
        return reply(200, '{"good":true}')
      }),
    )
    held.resolve()
    await expect(leaving).rejects.toThrow('the client disconnected')
    expect(new Set((await Promise.all(answers)).map((answer) => answer?.body))).toEqual(new Set(['{"good":true}']))
    expect(produced).toBe(1)
  })

  test.each([
    ['exactly as large as may be kept', 'é'.repeat(IDEMPOTENCY_RESULT_BYTES / 2), true],
    ['a byte larger', `${'é'.repeat(IDEMPOTENCY_RESULT_BYTES / 2)}x`, false],
  ])('get an answer that is %s; later clients get it only if it was stored', async (_, body, isKept) => {
    const line = await lineUp(engine)
    const held = deferred()
    let produced = 0
    const ask = () =>
      line.ask(async (replay) => {
        produced++
        await held.promise
        await line.store(replay.toRow({ status: 200, contentType: 'application/json', body }))
        return reply(200, body)
      })
    const answers = [ask(), ask(), ask()]
    held.resolve()
    for (const answer of await Promise.all(answers)) expect(answer?.status === 200 && answer.body === body).toBe(true)
    if (isKept) expect((await ask())?.body === body).toBe(true)
    else await expect(ask()).rejects.toMatchObject({ code: 'IDEMPOTENCY_RESULT_TOO_LARGE' })
    expect(produced).toBe(1)
  })
})

describeEachEngine('an answer that is too large to be kept', (engine) => {
  test.each([
    [CHAT_PATH, { index: 'Zero-Knowledge', prompt: 'hi' }],
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'hi' }] }],
    ['/v1/responses', { input: 'hi' }],
    ['/v1/messages', { messages: [{ role: 'user', content: 'hi' }], max_tokens: 10 }],
  ])('is billed once, and a repeat on %s gets that error, also after a restart', async (path, body) => {
    const gateway = await startGateway({ engine })
    gateway.upstream.script(replyJson(chatJson('x'.repeat(IDEMPOTENCY_RESULT_BYTES), { usage })))
    const ask = () => gateway.call('POST', path, { model: 'test/any', ...body }, k1)
    const first = await ask()
    expect([first.status, first.text.length > IDEMPOTENCY_RESULT_BYTES]).toEqual([200, true])
    const again = await ask()
    expect([again.status, again.text]).toEqual([409, expect.stringContaining('was not stored')])
    await gateway.restart()
    expect((await ask()).status).toBe(409)
    expect((await gateway.chat({ prompt: 'without a key' })).status).toBe(200)
    expect(await gateway.app.db.selectFrom('idempotency_results').select('body').execute()).toEqual([{ body: '' }])
    expect(gateway.upstream.requests).toHaveLength(2)
    expect(await gateway.usage()).toHaveLength(2)
  })
})

test('a client that does not read blocks no other: its answer is completed, and its connection is cut', async () => {
  const gateway = await startGateway({ drainTimeoutMs: 60_000 })
  const piece = chatStream(['x'.repeat(64 * 1024)], { finishReason: null, done: false })
  const pieces = 400
  const sentAll = deferred()
  gateway.upstream.script(async ({ head, write, end }) => {
    head(200, { 'content-type': 'text/event-stream' })
    // Each piece waits until the previous one has left this process.
    for (let sent = 0; sent < pieces; sent++) await write(piece)
    await write(chatStream([], { usage }))
    end()
    sentAll.resolve()
  })
  const socket = await lazyClient(gateway)
  await sentAll.promise
  let received = ''
  socket.setEncoding('latin1').on('data', (data: string) => {
    received += data
  })
  socket.on('error', () => {})
  socket.resume()
  await once(socket, 'close')
  expect(received).toContain('HTTP/1.1 200 OK')
  expect(received.length).toBeLessThan(pieces * 64 * 1024)
  expect(received).not.toContain('[DONE]')
  await gateway.app.drain()
  await gateway.restart()
  expect(await gateway.usage()).toEqual([expect.objectContaining({ outcome: 'complete' })])
  expect((await gateway.call('POST', CHAT_PATH, STREAMED_CHAT, k1)).status).toBe(409)
  expect(gateway.upstream.requests).toHaveLength(1)
})

const STREAMED_CHAT = JSON.stringify({ prompt: 'hi', index: 'Zero-Knowledge', model: 'test/any', stream: true })

/** A client that requests a stream with the key `k-1`, and reads it only on demand. */
async function lazyClient(gateway: Gateway): Promise<Socket> {
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
  await once(socket, 'connect')
  socket.pause()
  socket.write(
    `POST ${CHAT_PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${gateway.adminKey}\r\n` +
      'Connection: close\r\nIdempotency-Key: k-1\r\nContent-Type: application/json\r\n' +
      `Content-Length: ${STREAMED_CHAT.length}\r\n\r\n${STREAMED_CHAT}`,
  )
  return socket
}

describeEachEngine('a repeat', (engine) => {
  async function userOf(gateway: Gateway) {
    const { id: tenant_id } = await gateway.app.db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
    return addKey(gateway.app.db, await addUser(gateway.app.db, { tenant_id }))
  }

  test('is authorized like every request: a revoked key gets 401 instead of the answer', async () => {
    const gateway = await startGateway({ engine })
    const { secret: key, row } = await userOf(gateway)
    expect((await gateway.chat({ prompt: 'hi' }, { ...k1, key })).status).toBe(200)
    const revoked_at = '2026-01-01T00:00:00.000Z'
    await gateway.app.db.updateTable('api_keys').set({ revoked_at }).where('id', '=', row.id).execute()
    // The lookup of a key is cached for a moment; a new daemon has no cache.
    await gateway.restart()
    expect((await gateway.chat({ prompt: 'hi' }, { ...k1, key })).status).toBe(401)
  })

  test('is free, so exhausted points do not block it', async () => {
    const gateway = await startGateway({ engine, points: { Essential: 1 } })
    const { secret: key } = await userOf(gateway)
    const first = await gateway.chat({ prompt: 'hi' }, { ...k1, key })
    const [again, other] = [
      await gateway.chat({ prompt: 'hi' }, { ...k1, key }),
      await gateway.chat({ prompt: 'hi' }, { key }),
    ]
    expect([first.status, again.status, other.status]).toEqual([200, 200, 429])
    expect(again.text).toBe(first.text)
  })
})

test('a rejected request writes no claim, on PostgreSQL', async () => {
  const gateway = await startGateway({ engine: postgresEngine })
  const { db } = gateway.app
  await sql`create table writes (operation text)`.execute(db)
  await sql`create function note() returns trigger language plpgsql as
    $$ begin insert into writes values (tg_op); return coalesce(new, old); end $$`.execute(db)
  await sql`create trigger note after insert or delete on idempotency_results for each row execute function note()`.execute(
    db,
  )
  const writes = async () => (await sql`select operation from writes`.execute(db)).rows.length
  for (const body of [{ prompt: 'hi', model: 'nobody/x' }, { prompt: 'hi', index: 'nowhere' }, {}]) {
    expect((await gateway.chat(body, k1)).status).toBeGreaterThanOrEqual(400)
  }
  expect(await writes()).toBe(0)
  expect((await gateway.chat({ prompt: 'hi' }, k1)).status).toBe(200)
  expect(await writes()).toBeGreaterThan(0)
})

test('failovers that cannot be stored are logged, and the caller gets the answer', async () => {
  const gateway = await startGateway()
  gateway.upstream.fallback(replyJson({ error: {} }, { status: 429, headers: { 'retry-after': '7' } }))
  await sql`drop table outbox_events`.execute(gateway.app.db)
  gateway.upstream.script(replyJson(chatJson('well', { usage })))
  expect((await gateway.chat({ prompt: 'hi', models: ['test/a', 'test/b'] })).status).toBe(200)
  const refused = await gateway.chat({ prompt: 'hi', models: ['test/a', 'test/b'] }, k1)
  expect([refused.status, refused.headers['retry-after']]).toEqual([429, '7'])
  expect(gateway.log).toContainEqual(
    expect.objectContaining({ level: 'error', message: expect.stringContaining('evidence of a failed request') }),
  )
})
