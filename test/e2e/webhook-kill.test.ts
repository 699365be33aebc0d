import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { expect, test } from 'vitest'
import { openDatabase } from '../../src/daemon/platform/db/database.ts'
import { modelFailover } from '../../src/daemon/records/events/events.ts'
import { newApiKey } from '../../src/shared/ids.ts'
import { startReceiver } from '../daemon/webhooks/receiver.ts'
import { postgresEngine } from '../engines.ts'
import { chatJson, replyJson, startUpstream } from '../upstream.ts'
import { runDaemon } from './daemon-process.ts'

/** The kill comes after the fifth to the fourteenth answer, twice each. */
const KILLS = 20
const CLIENTS = 8

test('kill -9 under load, 20 times: every event of an acknowledged request reaches its receiver, and repeats are identical', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'aigw-webhook-kill-'))
  const upstream = await startUpstream()
  const bad = replyJson({ error: { message: 'down' } }, { status: 500 })
  const good = replyJson(chatJson('yes', { usage: { prompt_tokens: 1, completion_tokens: 1 } }))
  upstream.fallback((exchange) => ((exchange.request.body as { model: string }).model === 'bad' ? bad : good)(exchange))
  const receiver = await startReceiver()
  const config = join(dataDir, 'aigw.yaml')
  await writeFile(config, `providers:\n  test:\n    kind: openai\n    base_url: ${upstream.url}\n    api_key: sk-x\n`)
  const key = newApiKey()
  const start = () =>
    runDaemon(['--listen', '127.0.0.1:0', '--config', config, '--data-dir', dataDir], {
      env: { AIGW_BOOTSTRAP_KEY: key, WEBHOOKS_ALLOW_PRIVATE: 'true' },
    })
  async function send(url: string, path: string, body: object, agent: Agent) {
    const response = await request(url + path, {
      method: 'POST',
      dispatcher: agent,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const text = await response.body.text()
    if (response.statusCode >= 300) throw new Error(`status ${response.statusCode}: ${text}`)
    return JSON.parse(text)
  }
  const question = { prompt: 'hi', index: 'Zero-Knowledge', model: 'test/bad', fallback_models: ['test/good'] }
  const acknowledged: string[] = []

  for (let kill = 0; kill < KILLS; kill++) {
    const daemon = start()
    const url = await daemon.url()
    const agent = new Agent()
    if (kill === 0) {
      const endpoint = { url: receiver.url, description: 'all', events: ['*'], enabled: true }
      await send(url, '/api/admin/webhooks', endpoint, agent)
    }
    const enough = acknowledged.length + 5 + (kill % 10)
    let killed: Promise<unknown> | undefined
    async function client(): Promise<void> {
      while (!killed) {
        const answered = await send(url, '/api/external/chat/completions', question, agent).catch((error: Error) => {
          // Requests may fail only because of the kill.
          if (!killed) throw error
          return undefined
        })
        if (answered) acknowledged.push(answered.id)
        // The kill comes while other clients have requests and deliveries in flight.
        if (acknowledged.length >= enough) killed ??= daemon.end('SIGKILL')
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, client))
    await killed
    await agent.destroy()
  }

  const db = await openDatabase({ kind: 'sqlite', dataDir })
  const { tenant_id: tenantId } = await db.selectFrom('webhook_endpoints').selectAll().executeTakeFirstOrThrow()
  await db.destroy()
  const none = { failedModel: '', reason: 'timeout', nextModel: '', latencyMs: 0, userId: '', apiKeyId: '' } as const
  const expected = acknowledged.map(
    (requestId) => modelFailover({ tenantId, createdAt: '', requestId, step: 0 }, none).id,
  )
  const last = start()
  await last.url()
  const arrived = () => new Set(receiver.received.map(({ body }) => JSON.parse(body).id as string))
  const missing = () => {
    const there = arrived()
    return expected.filter((id) => !there.has(id))
  }
  while (missing().length > 0) await receiver.arrived(receiver.received.length + 1)
  expect(await last.end('SIGTERM')).toMatchObject({ code: 0 })
  expect(new Set(expected).size).toBe(acknowledged.length)

  // All attempts of a delivery have the same event and the same body.
  const seen = new Map<string, string>()
  for (const { headers, body } of receiver.received) {
    const id = headers['x-service-delivery'] ?? ''
    expect(body).toBe(seen.get(id) ?? body)
    seen.set(id, body)
  }
  expect(seen.size).toBe(arrived().size)
  await receiver.close()
  await upstream.close()
  await rm(dataDir, { recursive: true })
})

test('kill -9 of one of two daemons on PostgreSQL, 5 times: every event reaches its receiver, and none waits forever', async () => {
  const place = await postgresEngine.place()
  const upstream = await startUpstream()
  const bad = replyJson({ error: { message: 'down' } }, { status: 500 })
  const good = replyJson(chatJson('yes', { usage: { prompt_tokens: 1, completion_tokens: 1 } }))
  upstream.fallback((exchange) => ((exchange.request.body as { model: string }).model === 'bad' ? bad : good)(exchange))
  const receiver = await startReceiver()
  const config = join(place.dataDir, 'aigw.yaml')
  await writeFile(config, `providers:\n  test:\n    kind: openai\n    base_url: ${upstream.url}\n    api_key: sk-x\n`)
  // Both daemons must decrypt each other's secrets.
  const masterKey = join(place.dataDir, 'master-key')
  await writeFile(masterKey, 'ab'.repeat(32), { mode: 0o600 })
  const key = newApiKey()
  let started = 0
  const start = async () => {
    const dataDir = join(place.dataDir, `daemon-${started++}`)
    const daemon = runDaemon(['--listen', '127.0.0.1:0', '--config', config, '--data-dir', dataDir], {
      env: {
        AIGW_BOOTSTRAP_KEY: key,
        AIGW_DATABASE_URL: place.databaseUrl ?? '',
        AIGW_MASTER_KEY_FILE: masterKey,
        WEBHOOKS_ALLOW_PRIVATE: 'true',
      },
    })
    return { ...daemon, origin: await daemon.url() }
  }
  const question = { prompt: 'hi', index: 'Zero-Knowledge', model: 'test/bad', fallback_models: ['test/good'] }
  const acknowledged: string[] = []
  let survivor = await start()
  await post(survivor.origin, key, '/api/admin/webhooks', { url: receiver.url, description: '', events: ['*'] })

  for (let kill = 0; kill < 5; kill++) {
    const other = await start()
    const urls = [survivor.origin, other.origin]
    const enough = acknowledged.length + 20
    let killed: Promise<unknown> | undefined
    const client = async (nth: number) => {
      while (!killed) {
        const answered = await post(urls[nth % 2] ?? '', key, '/api/external/chat/completions', question).catch(
          (error) => {
            if (!killed) throw error
            return undefined
          },
        )
        if (answered) acknowledged.push(answered.id)
        if (acknowledged.length >= enough) killed ??= survivor.end('SIGKILL')
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, (_, nth) => client(nth)))
    await killed
    survivor = other
  }

  const db = await openDatabase(place.options)
  const { tenant_id: tenantId } = await db.selectFrom('webhook_endpoints').selectAll().executeTakeFirstOrThrow()
  const none = { failedModel: '', reason: 'timeout', nextModel: '', latencyMs: 0, userId: '', apiKeyId: '' } as const
  const expected = acknowledged.map(
    (requestId) => modelFailover({ tenantId, createdAt: '', requestId, step: 0 }, none).id,
  )
  // Deliveries that the last killed daemon claimed are released when its lease expires.
  await db
    .updateTable('webhook_deliveries')
    .set({ lease_until: '2000-01-01T00:00:00.000Z' })
    .where('state', '=', 'pending')
    .execute()
  const missing = () => {
    const there = new Set(receiver.received.map(({ body }) => JSON.parse(body).id as string))
    return expected.filter((id) => !there.has(id))
  }
  while (missing().length > 0) await receiver.arrived(receiver.received.length + 1)
  expect(await survivor.end('SIGTERM')).toMatchObject({ code: 0 })
  const bodies = new Map<string, string>()
  for (const { headers, body } of receiver.received) {
    const id = headers['x-service-delivery'] ?? ''
    expect(body).toBe(bodies.get(id) ?? body)
    bodies.set(id, body)
  }
  expect(new Set(expected).size).toBe(acknowledged.length)
  await db.destroy()
  await receiver.close()
  await upstream.close()
  await place.remove()
})

async function post(url: string, key: string, path: string, body: object) {
  const response = await request(url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await response.body.text()
  if (response.statusCode >= 300) throw new Error(`status ${response.statusCode}: ${text}`)
  return JSON.parse(text)
}
