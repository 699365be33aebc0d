import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDatabase } from '../../src/daemon/platform/db/database.ts'
import type { Db } from '../../src/daemon/platform/db/db.ts'
import { newApiKey } from '../../src/shared/ids.ts'
import { type InstalledCli, installCli } from '../cli/installed-cli.ts'
import { startReceiver } from '../daemon/webhooks/receiver.ts'
import { postgresEngine, sqliteEngine, type TestEngine } from '../engines.ts'
import { startUpstream } from '../upstream.ts'
import { type DaemonProcess, runDaemon } from './daemon-process.ts'
import { type Acknowledged, answerLoad, BLOCKING_RULE, nextRequest, type Sent, send } from './kill-load.ts'
import {
  expectDeliveries,
  expectEvents,
  expectReceipts,
  expectSpend,
  loadReceipts,
  type Totals,
  totalsOf,
} from './kill-proof.ts'

/** A thorough run: `AIGW_KILLS=100 npx vitest run test/e2e/kill.test.ts` prints its counts. */
const KILLS = Number(process.env.AIGW_KILLS ?? 8)
const CLIENTS = 16
/** Requests that each client of a surviving daemon sends after the kill. */
const SENT_BY_SURVIVORS = 2
const REPEATS_PER_RESTART = 6
/** Each event ends a run when it has happened a number of times. */
const MOMENTS = ['a response was received', 'the model answered', 'an event was delivered'] as const
type Moment = (typeof MOMENTS)[number]

let cli: InstalledCli
beforeAll(async () => {
  cli = await installCli()
})
afterAll(() => cli.remove())

test.each([
  ['a daemon on SQLite', sqliteEngine, 1],
  ['one or both of two daemons on PostgreSQL', postgresEngine, 2],
] as const)(
  'kill -9 of %s under load: each acknowledged request is recorded exactly once, repeats are identical, events arrive',
  async (_, engine, count) => {
    const world = await openWorld(engine, count)
    const { acknowledged, lost, upstream, receiver } = world
    let turn = 0
    let kills = 0

    while (kills < KILLS) {
      await world.startAll()
      const agent = new Agent()
      await expectReplays(world, agent, acknowledged.filter(isStored).slice(-REPEATS_PER_RESTART))
      const isKilled = Array.from({ length: count }, () => false)
      // Every fourth kill ends all daemons.
      const victims = kills % 4 === 3 ? isKilled.map((_, at) => at) : [kills % count]
      const killed = world.nextMoment(MOMENTS[kills % MOMENTS.length] as Moment, 1 + ((kills * 7) % 40), () => {
        for (const at of victims) {
          isKilled[at] = true
          world.daemons[at]?.child.kill('SIGKILL')
        }
      })
      const client = async (nth: number) => {
        const at = nth % count
        for (let more = SENT_BY_SURVIVORS; more > 0; ) {
          const sent = nextRequest(turn++)
          world.sent.push(sent)
          const received = await send(world.urlOf(at), world.key, agent, sent).catch((error: Error) => {
            // Requests may fail only because of the kill.
            if (!isKilled[at]) throw error
            return undefined
          })
          if (received) acknowledged.push({ ...sent, ...received })
          else lost.push(sent)
          if (received) world.happened('a response was received')
          if (isKilled[at]) break
          if (isKilled.includes(true)) more--
        }
      }
      await Promise.all(Array.from({ length: CLIENTS }, (_, nth) => client(nth)))
      await killed
      await Promise.all(victims.map((at) => world.daemons[at]?.ended))
      await agent.destroy()
      kills += victims.length
    }

    await world.releaseLeases()
    await world.startAll()
    const agent = new Agent()
    // A client whose request was lost repeats it with the same key.
    const known = acknowledged.length
    let replays = 0
    for (const sent of lost.filter(({ idempotencyKey }) => idempotencyKey !== undefined)) {
      const received = await send(world.urlOf(0), world.key, agent, sent)
      acknowledged.push({ ...sent, ...received })
      if (received.isReplay) replays++
    }
    const calls = upstream.requests.length
    await expectReplays(world, agent, acknowledged.filter(isStored))
    expect(upstream.requests.length).toBe(calls)

    await world.withStore(async (db) => {
      const receipts = await loadReceipts(db)
      expectReceipts(receipts, world.sent, acknowledged)
      const eventIds = await expectEvents(db, receipts, world.sent)
      const arrived = () => new Set(receiver.received.map(({ body }) => String(JSON.parse(body).id)))
      while (arrived().size < eventIds.length) await receiver.arrived(receiver.received.length + 1)
      expectDeliveries(receiver.received, eventIds)
      expect(await world.usageReport(agent, totalsOf(receipts).requests)).toEqual(totalsOf(receipts))
      const verified = await world.aigw('audit', 'verify')
      expect(verified.exitCode, verified.stderr).toBe(0)
      await agent.destroy()
      for (const daemon of world.daemons) expect(await daemon.end('SIGTERM')).toMatchObject({ code: 0 })
      expect((await loadReceipts(db)).length).toBe(receipts.length)
      await expectSpend(db, receipts)
      if (process.env.AIGW_KILLS) {
        const sent = { engine: engine.name, kills, sent: world.sent.length, acknowledged: known, lost: lost.length }
        const recorded = { receipts: receipts.length, bills: totalsOf(receipts).requests, lostButStored: replays }
        const read = { repeats: acknowledged.filter(isStored).length, events: eventIds.length }
        const posts = receiver.received.length
        process.stdout.write(`${JSON.stringify({ ...sent, ...recorded, ...read, posts })}\n`)
      }
    })
    await world.close()
  },
)

/** Whether the answer is stored for repeats. */
const isStored = ({ idempotencyKey, status }: Acknowledged): boolean => idempotencyKey !== undefined && status === 200

type World = Awaited<ReturnType<typeof openWorld>>

/** Repeats these requests on each daemon, and expects the same bytes. */
async function expectReplays(world: World, agent: Agent, answered: readonly Acknowledged[]): Promise<void> {
  for (let at = 0; at < world.daemons.length; at++) {
    for (const first of answered) {
      const repeated = await send(world.urlOf(at), world.key, agent, first)
      expect(repeated).toEqual({ status: 200, isReplay: true, text: first.text })
    }
  }
}

/** The store, the model, the receiver of events and the daemons of one test. */
async function openWorld(engine: TestEngine, count: number) {
  const place = await engine.place()
  const upstream = await startUpstream()
  let waiting: { moment: Moment; more: number; act(): void } | undefined
  function happened(moment: Moment): void {
    if (waiting?.moment !== moment || --waiting.more > 0) return
    const { act } = waiting
    waiting = undefined
    act()
  }
  upstream.fallback(answerLoad(() => happened('the model answered')))
  const receiver = await startReceiver((socket) => {
    happened('an event was delivered')
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
  })
  const config = join(place.dataDir, 'aigw.yaml')
  await writeFile(config, `providers:\n  test:\n    kind: openai\n    base_url: ${upstream.url}\n    api_key: sk-x\n`)
  const masterKey = join(place.dataDir, 'shared-master-key')
  await writeFile(masterKey, 'ab'.repeat(32), { mode: 0o600 })
  const key = newApiKey()
  const daemons: DaemonProcess[] = []
  const urls: string[] = []

  async function start(at: number): Promise<void> {
    const dataDir = count === 1 ? place.dataDir : join(place.dataDir, `daemon-${at}`)
    await mkdir(dataDir, { recursive: true })
    const daemon = runDaemon(['--listen', '127.0.0.1:0', '--config', config, '--data-dir', dataDir], {
      env: {
        ...{ AIGW_BOOTSTRAP_KEY: key, WEBHOOKS_ALLOW_PRIVATE: 'true', AIGW_MASTER_KEY_FILE: masterKey },
        ...(place.databaseUrl !== undefined && { AIGW_DATABASE_URL: place.databaseUrl }),
      },
    })
    daemons[at] = daemon
    urls[at] = await daemon.url()
  }

  const urlOf = (at: number) => urls[at] as string

  async function call(agent: Agent, method: 'GET' | 'POST', path: string, body?: object) {
    const response = await request(urlOf(0) + path, {
      ...{ method, dispatcher: agent },
      headers: { authorization: `Bearer ${key}`, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await response.body.text()
    if (response.statusCode >= 300) throw new Error(`${path}: status ${response.statusCode}: ${text}`)
    return JSON.parse(text)
  }

  async function withStore<T>(use: (db: Db) => Promise<T>): Promise<T> {
    const db = await openDatabase(place.options)
    return use(db).finally(() => db.destroy())
  }

  // One daemon creates the endpoint that receives all events, and the rule that blocks requests. The others start later.
  await start(0)
  const agent = new Agent()
  await call(agent, 'POST', '/api/admin/webhooks', { url: receiver.url, description: 'all', events: ['*'] })
  await call(agent, 'POST', '/api/admin/guard-rules', BLOCKING_RULE)
  await agent.destroy()

  return {
    ...{ key, upstream, receiver, daemons, urlOf, happened, withStore },
    sent: [] as Sent[],
    acknowledged: [] as Acknowledged[],
    /** Requests without a complete response. */
    lost: [] as Sent[],
    /** Starts the daemons that do not run. */
    async startAll(): Promise<void> {
      const isRunning = (at: number) => daemons[at]?.child.exitCode === null && daemons[at].child.signalCode === null
      for (let at = 0; at < count; at++) if (!isRunning(at)) await start(at)
    },
    /** Runs `act` when `moment` has happened `times` times. */
    nextMoment: (moment: Moment, times: number, act: () => void) =>
      new Promise<void>((resolve) => {
        waiting = {
          moment,
          more: times,
          act() {
            act()
            resolve()
          },
        }
      }),
    /** Ends the leases of killed daemons on claims and deliveries, which otherwise last up to 30 s. */
    async releaseLeases(): Promise<void> {
      await withStore(async (db) => {
        const lease_until = '2000-01-01T00:00:00.000Z'
        await db.updateTable('webhook_deliveries').set({ lease_until }).where('state', '=', 'pending').execute()
        await db.updateTable('idempotency_results').set({ lease_until }).where('lease_until', 'is not', null).execute()
      })
    },
    /** The report of usage, once it contains this number of requests. */
    async usageReport(agent: Agent, requests: number): Promise<Totals> {
      for (;;) {
        const { rows } = await call(agent, 'GET', '/api/admin/usage?groupBy=user,key,model')
        const sum = (name: keyof Totals) => rows.reduce((total: number, row: Totals) => total + row[name], 0)
        const [inputTokens, outputTokens, points] = [sum('inputTokens'), sum('outputTokens'), sum('points')]
        if (sum('requests') >= requests) return { requests: sum('requests'), inputTokens, outputTokens, points }
      }
    },
    aigw: (...words: string[]) => cli.run(words, { env: { AIGW_BASE_URL: urlOf(0), AIGW_API_KEY: key } }),
    async close(): Promise<void> {
      await receiver.close()
      await upstream.close()
      await place.remove()
    },
  }
}
