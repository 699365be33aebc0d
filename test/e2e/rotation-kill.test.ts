import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { request } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { STORED_RESPONSE_COLUMN } from '../../src/daemon/gateway/surfaces/responses/store.ts'
import { openDatabase } from '../../src/daemon/platform/db/database.ts'
import type { Db } from '../../src/daemon/platform/db/db.ts'
import { insertRows } from '../../src/daemon/platform/db/insert-rows.ts'
import { createMasterKey, openSecret, sealedPrefix, sealSecret } from '../../src/daemon/platform/secrets/seal.ts'
import { newApiKey } from '../../src/shared/ids.ts'
import { verifyWebhook } from '../../src/webhooks.ts'
import { startReceiver } from '../daemon/webhooks/receiver.ts'
import { describeEachEngine } from '../engines.ts'
import { closeAfterTest } from '../leftovers.ts'
import { secretWatch } from '../secret-watch.ts'
import { runDaemon } from './daemon-process.ts'

/** So many texts that a pass over them takes many transactions. */
const TEXTS = 1_500
const EARLIER = '2020-01-01T00:00:00.000Z'
const textOf = (nth: number) => JSON.stringify({ nth, text: 'kept' })

describeEachEngine('kill -9 during a rotation of the master key', (engine) => {
  test('at any point: the next start continues, every secret opens, and webhooks are signed as before', async () => {
    const place = await engine.place()
    onTestFinished(() => place.remove())
    const home = await mkdtemp(join(tmpdir(), 'aigw-rotation-'))
    onTestFinished(() => rm(home, { recursive: true }))
    const receiver = await startReceiver()
    closeAfterTest(receiver)
    const key = newApiKey()
    const args = ['--listen', '127.0.0.1:0', '--data-dir', place.dataDir]
    const database = place.databaseUrl === undefined ? {} : { AIGW_DATABASE_URL: place.databaseUrl }
    const env = { AIGW_BOOTSTRAP_KEY: key, WEBHOOKS_ALLOW_PRIVATE: 'true', ...database }
    const start = async () => {
      const daemon = runDaemon(args, { env, home })
      const url = await daemon.url()
      const call = async (method: 'GET' | 'POST', path: string, body?: unknown) => {
        const response = await request(url + path, {
          method,
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          ...(body !== undefined && { body: JSON.stringify(body) }),
        })
        // biome-ignore lint/suspicious/noExplicitAny: bodies of several routes
        return { status: response.statusCode, body: (await response.body.json()) as any }
      }
      return { daemon, call }
    }
    const keyFile = async () => (await readFile(join(place.dataDir, 'master.key'), 'utf8')).trim()

    const first = await start()
    const hook = await first.call('POST', '/api/admin/webhooks', { url: receiver.url, events: ['*'] })
    expect(hook.status).toBe(201)
    secretWatch.addSecret('a signing secret', hook.body.secret)
    await first.daemon.end('SIGTERM')
    const earlier = await keyFile()

    const db = await openDatabase(place.options)
    onTestFinished(() => db.destroy())
    await fill(db, earlier)
    const letPhasePass = () => db.updateTable('master_key_rotation').set({ phase_at: EARLIER }).execute()
    const running = () => db.selectFrom('master_key_rotation').selectAll().executeTakeFirst()
    const replaced = async (id: string) => {
      const { count } = await db
        .selectFrom('stored_responses')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .where('sealed', 'like', `${sealedPrefix(id)}%`)
        .executeTakeFirstOrThrow()
      return Number(count)
    }

    // 1. Right after the operator has begun the rotation.
    const begun = await start()
    expect((await begun.call('POST', '/api/admin/secrets/rotate-master')).status).toBe(202)
    await begun.daemon.end('SIGKILL')
    const id = (await running())?.new_id ?? ''
    expect(id).toMatch(/^[0-9a-f]{16}$/)

    // 2. After a part of the texts was encrypted again, twice.
    for (const part of [1, TEXTS / 2]) {
      await letPhasePass()
      const second = await start()
      await expect.poll(() => replaced(id), { interval: 1, timeout: 30_000 }).toBeGreaterThanOrEqual(part)
      await second.daemon.end('SIGKILL')
      expect(await replaced(id)).toBeLessThan(TEXTS)
    }

    // 3. After all texts were encrypted again, while the row of the rotation still exists.
    await db.updateTable('master_key_rotation').set({ phase_at: '2999-01-01T00:00:00.000Z' }).execute()
    const third = await start()
    await expect.poll(() => replaced(id), { interval: 5, timeout: 30_000 }).toBe(TEXTS)
    await third.daemon.end('SIGKILL')
    expect((await running())?.phase).toBe('reseal')
    expect(await keyFile()).toBe(earlier)

    // 4. Right after the row was deleted. The key file may not be replaced yet.
    await letPhasePass()
    const fourth = await start()
    await expect.poll(running, { interval: 1, timeout: 30_000 }).toBeUndefined()
    await fourth.daemon.end('SIGKILL')

    const last = await start()
    const { body } = await last.call('GET', '/api/admin/secrets/master-key')
    expect(body.master_key).toMatchObject({ id, rotation: null })
    await expect.poll(async () => createMasterKey(await keyFile()).id).toBe(id)
    await expect.poll(async () => (await last.call('GET', '/readyz')).body.checks).toMatchObject({ secrets: true })
    expect((await last.call('POST', `/api/admin/webhooks/${hook.body.webhook.id}/test`)).status).toBe(202)
    await receiver.arrived(1)
    const [delivery] = receiver.received
    const verified = verifyWebhook(delivery?.body ?? '', delivery?.headers['x-service-signature'], hook.body.secret)
    expect(verified.event.type).toBe('webhook:test')
    const { stdout } = await last.daemon.end('SIGTERM')
    expect(stdout).not.toContain('"error"')
    expect(await openAll(db, await keyFile())).toEqual(Array.from({ length: TEXTS }, (_, nth) => textOf(nth)))
  })
})

/** Stores texts that are encrypted with a key, of one tenant. */
async function fill(db: Db, hex: string): Promise<void> {
  const masterKey = createMasterKey(hex)
  const { id: tenant_id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
  const rows = Array.from({ length: TEXTS }, (_, nth) => {
    const id = `resp_${String(nth).padStart(5, '0')}`
    const sealed = sealSecret(masterKey, STORED_RESPONSE_COLUMN.locationOf({ tenant_id, id }), textOf(nth))
    return { tenant_id, id, user_id: 'u', created_at: EARLIER, expires_at: '2999-01-01T00:00:00.000Z', sealed }
  })
  for (let at = 0; at < rows.length; at += 100) await insertRows(db, 'stored_responses', rows.slice(at, at + 100))
}

/** Decrypts all texts with this key alone, in their order. */
async function openAll(db: Db, hex: string): Promise<string[]> {
  const masterKey = createMasterKey(hex)
  const rows = await db.selectFrom('stored_responses').selectAll().orderBy('id').execute()
  return rows.map((row) =>
    openSecret(masterKey, STORED_RESPONSE_COLUMN.locationOf({ tenant_id: row.tenant_id, id: row.id }), row.sealed),
  )
}
