import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { openDatabase } from '../../src/daemon/platform/db/database.ts'
import type { Db } from '../../src/daemon/platform/db/db.ts'
import { newApiKey } from '../../src/shared/ids.ts'
import { addKey, addUser } from '../accounts.ts'
import { describeEachEngine, type TestPlace } from '../engines.ts'
import { runDaemon } from './daemon-process.ts'

const KILLS = 4
const CLIENTS = 12
const PER_RUN = 60

/** Number of requests of each kind. All count for one key. */
const REQUESTS = [
  { method: 'GET', path: '/api/external/models', status: 200 },
  { method: 'GET', path: '/api/external/groups/no-id', status: 404 },
  { method: 'POST', path: '/api/external/chat/completions', status: 400, body: '{' },
  {
    method: 'POST',
    path: '/api/external/chat/completions',
    status: 200,
    body: JSON.stringify({ prompt: 'hi', index: 'Zero-Knowledge', model: 'local/extract' }),
  },
  {
    method: 'POST',
    path: '/api/external/chat/completions',
    status: 200,
    body: JSON.stringify({ prompt: 'hi', index: 'Zero-Knowledge', model: 'local/extract', stream: true }),
  },
] as const

describeEachEngine('kill -9 under load', (engine) => {
  test('the counters include every answered request, and no request that was never sent', async () => {
    const place = await engine.place()
    onTestFinished(() => place.remove())
    const home = await mkdtemp(join(tmpdir(), 'aigw-limits-'))
    onTestFinished(() => rm(home, { recursive: true }))
    const bootstrapKey = newApiKey()
    const start = () => {
      const args = ['--listen', '127.0.0.1:0', '--data-dir', place.dataDir]
      const database = place.databaseUrl === undefined ? {} : { AIGW_DATABASE_URL: place.databaseUrl }
      return runDaemon(args, { env: { AIGW_BOOTSTRAP_KEY: bootstrapKey, ...database }, home })
    }
    // The first start creates the tenant.
    const first = start()
    await first.url()
    await first.end('SIGTERM')
    const key = await withStore(place, async (db) => {
      const { id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
      return addKey(db, await addUser(db, { tenant_id: id, role: 'admin' }))
    })
    const used = () =>
      withStore(place, async (db) => {
        const rows = await db
          .selectFrom('rate_counters')
          .select(['counter', 'used'])
          .where('api_key_id', '=', key.row.id)
          .execute()
        return Object.fromEntries(rows.map((row) => [row.counter, row.used]))
      })

    let sent = 0
    let answered = 0
    for (let kill = 0; kill < KILLS; kill++) {
      const daemon = start()
      const url = await daemon.url()
      const agent = new Agent()
      const enough = answered + PER_RUN + 7 * kill
      let killed: Promise<unknown> | undefined
      async function client(at: number): Promise<void> {
        for (let turn = at; !killed; turn++) {
          const { status, ...asked } = REQUESTS[turn % REQUESTS.length] as (typeof REQUESTS)[number]
          sent += 1
          const got = await send(url, key.secret, agent, asked).catch((error: Error) => {
            // Requests may fail only because of the kill.
            if (!killed) throw error
            return undefined
          })
          if (got === undefined) continue
          expect(got).toBe(status)
          answered += 1
          // The kill comes while other clients have requests in flight.
          if (answered >= enough) killed ??= daemon.end('SIGKILL')
        }
      }
      await Promise.all(Array.from({ length: CLIENTS }, (_, at) => client(at)))
      await killed
      await agent.destroy()
      const { month = 0 } = await used()
      expect(month).toBeGreaterThanOrEqual(answered)
      expect(month).toBeLessThanOrEqual(sent)
    }

    const before = await used()
    const last = start()
    const agent = new Agent()
    const response = await request(`${await last.url()}/api/external/usage`, {
      dispatcher: agent,
      headers: { authorization: `Bearer ${key.secret}` },
    })
    expect(await response.body.json()).toMatchObject({ api_key: { monthly: { used: before.month } } })
    await agent.destroy()
    expect(await last.end('SIGTERM')).toMatchObject({ code: 0 })
  })
})

async function withStore<T>(place: TestPlace, use: (db: Db) => Promise<T>): Promise<T> {
  const db = await openDatabase(place.options)
  return use(db).finally(() => db.destroy())
}

/** Returns the status when the answer is complete. A stream counts only if `[DONE]` ended it. */
async function send(
  url: string,
  key: string,
  agent: Agent,
  { method, path, body }: { method: 'GET' | 'POST'; path: string; body?: string },
): Promise<number> {
  const response = await request(url + path, {
    method,
    dispatcher: agent,
    headers: { authorization: `Bearer ${key}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body }),
  })
  const text = await response.body.text()
  const isStream = String(response.headers['content-type']).startsWith('text/event-stream')
  if (isStream && !text.endsWith('data: [DONE]\n\n')) throw new Error(`the answer broke off: ${text}`)
  return response.statusCode
}
