import { once } from 'node:events'
import { createServer, connect as dial, type Server, type Socket } from 'node:net'
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { createLedger, type Ledger } from '../../../../src/daemon/records/ledger/ledger.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { deferred } from '../../../deferred.ts'
import { describeEachEngine, postgresEngine, sqliteEngine, storeForEach } from '../../../engines.ts'
import { startTypescript } from '../../../typescript-process.ts'
import { idempotencyResult, incidentRow, rateCounter } from './rows.ts'

const newLedger = (db: Db, logged: unknown[] = []): Ledger =>
  createLedger({ db, clock: systemClock, log: { error: (details: unknown) => logged.push(details), info: () => {} } })

const billed = async (db: Db) =>
  (await db.selectFrom('incidents').select('id').orderBy('id').execute()).map((row) => row.id)

const statuses = async (commits: readonly Promise<void>[]) =>
  (await Promise.allSettled(commits)).map(({ status }) => (status === 'fulfilled' ? 'stored' : 'refused'))

const ids = (count: number) => Array.from({ length: count }, (_, position) => `r${String(position).padStart(4, '0')}`)

describeEachEngine('the ledger', (engine) => {
  const store = storeForEach(engine)
  let ledger: Ledger
  let logged: unknown[]
  beforeEach(async () => {
    logged = []
    ledger = newLedger(store.db, logged)
  })
  afterEach(() => ledger.close())

  test('a commit has resolved only when every other connection can see it', async () => {
    const other = await openDatabase(store.place.options)
    for (const id of ids(5)) {
      await ledger.commit({ incidents: [incidentRow(id)], idempotency: idempotencyResult(id, id) })
      expect((await billed(other)).at(-1)).toBe(id)
    }
    expect(await other.selectFrom('idempotency_results').select('body').limit(1).execute()).toEqual([
      { body: idempotencyResult('x', 'x').body },
    ])
    await other.destroy()
  })

  test('a commit that arrives while the previous one finishes does not wait for a third', async () => {
    for (const turns of ids(12).keys()) {
      let earlier = ledger.commit({ incidents: [incidentRow(`first-${turns}`)] })
      for (let turn = 0; turn < turns; turn++) earlier = earlier.then(() => {})
      await earlier.then(() => ledger.commit({ incidents: [incidentRow(`second-${turns}`)] }))
    }
    expect(await billed(store.db)).toHaveLength(24)
  })

  test('closing waits for a commit that arrived while the previous one finished', async () => {
    for (const turns of ids(12).keys()) {
      const closing = newLedger(store.db)
      let earlier = closing.commit({ incidents: [incidentRow(`first-${turns}`)] })
      for (let turn = 0; turn < turns; turn++) earlier = earlier.then(() => {})
      let isSecondStored = false
      await earlier.then(() => {
        void closing.commit({ incidents: [incidentRow(`second-${turns}`)] }).then(() => {
          isSecondStored = true
        })
        return closing.close()
      })
      expect(isSecondStored).toBe(true)
    }
  })

  test('hundreds of requests in flight are each stored once', async () => {
    const all = ids(1200)
    await Promise.all(
      all.map(async (id) => {
        await ledger.commit({ incidents: [incidentRow(id)] })
      }),
    )
    expect(await billed(store.db)).toEqual(all)
  })

  test('a request id is never billed twice, and the first bill stands', async () => {
    await ledger.commit({ incidents: [incidentRow('once', { match_count: 1 })] })
    await expect(ledger.commit({ incidents: [incidentRow('once', { match_count: 2 })] })).rejects.toThrow(/unique/i)
    // Even an identical bill is rejected, because a repeat is a bug that must be visible.
    await expect(ledger.commit({ incidents: [incidentRow('once', { match_count: 1 })] })).rejects.toThrow(/unique/i)
    const rows = await store.db.selectFrom('incidents').select(['id', 'match_count']).execute()
    expect(rows).toEqual([{ id: 'once', match_count: 1 }])
  })

  test('of two requests with one id in the same commit, one is billed', async () => {
    const twice = ['a', 'same', 'b', 'same', 'c'].map((id) => ledger.commit({ incidents: [incidentRow(id)] }))
    expect(await statuses(twice)).toEqual(['stored', 'stored', 'stored', 'refused', 'stored'])
    expect(await billed(store.db)).toEqual(['a', 'b', 'c', 'same'])
    expect(logged).not.toEqual([])
  })

  test('a record that cannot be stored is rejected alone; the others are stored', async () => {
    const categories = ['fine', 'a\0b', 'fine', 'fine']
    const commits = categories.map((category, position) =>
      ledger.commit({ incidents: [incidentRow(`r${position}`, { category })] }),
    )
    expect(await statuses(commits)).toEqual(['stored', 'refused', 'stored', 'stored'])
    expect(await billed(store.db)).toEqual(['r0', 'r2', 'r3'])
  })

  test('the records of one request are stored together or not at all', async () => {
    await ledger.commit({ incidents: [incidentRow('first')], idempotency: idempotencyResult('first', 'key') })
    const commits = [
      ledger.commit({ incidents: [incidentRow('second')], idempotency: idempotencyResult('second', 'key') }),
      ledger.commit({ incidents: [incidentRow('third')], idempotency: idempotencyResult('third', 'another key') }),
    ]
    expect(await statuses(commits)).toEqual(['refused', 'stored'])
    expect(await billed(store.db)).toEqual(['first', 'third'])
  })

  test('an empty record resolves at once', async () => {
    await ledger.commit({})
  })

  test('closing commits waiting records, then rejects', async () => {
    const waiting = ledger.commit({ incidents: [incidentRow('waiting')] })
    await ledger.close()
    await waiting
    expect(await billed(store.db)).toEqual(['waiting'])
    await expect(ledger.commit({ incidents: [incidentRow('late')] })).rejects.toThrow('closed')
  })

  test('a store outage rejects every record, and none stays pending', async () => {
    const db = await openDatabase(store.place.options)
    const orphaned = newLedger(db)
    await db.destroy()
    const commits = ids(600).map((id) => orphaned.commit({ incidents: [incidentRow(id)] }))
    expect(new Set(await statuses(commits))).toEqual(new Set(['refused']))
    await orphaned.close()
    expect(await billed(store.db)).toEqual([])
  })
})

describeEachEngine('counters in the ledger', (engine) => {
  const store = storeForEach(engine)
  let ledger: Ledger
  beforeEach(async () => {
    ledger = newLedger(store.db)
  })
  afterEach(() => ledger.close())
  const counters = () => store.db.selectFrom('rate_counters').selectAll().orderBy('counter').execute()

  test('a record that many requests share is stored once, with its value at the start of the commit', async () => {
    const shared = rateCounter('minute')
    const commits = ids(100).map((id) => {
      shared.used += 1
      return ledger.commit({ incidents: [incidentRow(id)], counters: [shared] })
    })
    shared.used += 1
    await Promise.all(commits)
    expect(await counters()).toEqual([{ ...shared, used: 101 }])
    expect(await billed(store.db)).toHaveLength(100)
  })

  test('they replace earlier values, and no others', async () => {
    const [minute, hour] = [rateCounter('minute', { used: 1 }), rateCounter('hour', { used: 1 })]
    await ledger.commit({ counters: [minute, hour] })
    await ledger.commit({ counters: [{ ...minute, used: 2 }] })
    const begun = rateCounter('minute', { used: 1, window_start: '2026-01-01T00:01:00.000Z' })
    await ledger.commit({ counters: [begun] })
    await ledger.commit({ counters: [] })
    expect(await counters()).toEqual([hour, begun])
  })

  test('they are stored with the bill or not at all', async () => {
    await ledger.commit({ incidents: [incidentRow('once')] })
    const minute = rateCounter('minute', { used: 1 })
    await expect(ledger.commit({ incidents: [incidentRow('once')], counters: [minute] })).rejects.toThrow(/unique/i)
    expect(await counters()).toEqual([])
  })

  test('a rejected record does not affect them', async () => {
    const minute = rateCounter('minute', { used: 3 })
    const commits = ['fine', 'a\0b', 'fine'].map((category, position) =>
      ledger.commit({ incidents: [incidentRow(`r${position}`, { category })], counters: [minute] }),
    )
    expect(await statuses(commits)).toEqual(['stored', 'refused', 'stored'])
    expect(await counters()).toEqual([minute])
  })
})

test('requests that finish together share one transaction', async () => {
  const { db, close } = await postgresEngine.open()
  const ledger = newLedger(db)
  await Promise.all(ids(50).map((id) => ledger.commit({ incidents: [incidentRow(id)] })))
  // PostgreSQL stores the number of the transaction that wrote a row.
  const { rows } =
    await sql`select count(distinct xmin::text) as transactions, count(*) as rows from incidents`.execute(db)
  expect(rows).toEqual([{ transactions: 1, rows: 50 }])
  await close()
})

test('a full disk rejects the requests of that commit, stores none of them, and does not affect later ones', async () => {
  const { db, close } = await sqliteEngine.open()
  const ledger = newLedger(db)
  await sql`pragma max_page_count = 1`.execute(db)
  const category = 'x'.repeat(10_000)
  const commits = ids(400).map((id) => ledger.commit({ incidents: [incidentRow(id, { category })] }))
  expect(new Set(await statuses(commits))).toEqual(new Set(['refused']))
  expect(await billed(db)).toEqual([])
  await sql`pragma max_page_count = 4294967294`.execute(db)
  await ledger.commit({ incidents: [incidentRow('later')] })
  expect(await billed(db)).toEqual(['later'])
  await close()
})

test('records that wait while the file is locked are rejected with the first commit, and later ones are tried', async () => {
  const { db, place, close } = await sqliteEngine.open()
  const ledger = newLedger(db)
  await ledger.commit({ incidents: [incidentRow('before')] })
  await sql`pragma busy_timeout = 50`.execute(db)
  const other = await openDatabase(place.options)
  const locked = deferred()
  const unlock = deferred()
  const holding = other.transaction().execute(() => {
    locked.resolve()
    return unlock.promise
  })
  await locked.promise
  const first = ledger.commit({ incidents: [incidentRow('first')] })
  // The commit of the first record starts in the second turn.
  for (let turn = 0; turn < 4; turn++) await new Promise(setImmediate)
  const outcomes = await Promise.allSettled([first, ledger.commit({ incidents: [incidentRow('second')] })])
  const reasons = outcomes.map((outcome) => (outcome as PromiseRejectedResult).reason)
  expect([reasons[0].code, new Set(reasons).size]).toEqual(['SQLITE_BUSY', 1])
  expect(() => ledger.requireWritable()).toThrow(expect.objectContaining({ code: 'OVERLOADED' }))
  await expect(ledger.commit({ counters: [rateCounter('minute')] })).rejects.toThrow('rejects writes')
  unlock.resolve()
  await holding
  // An answer that a model has already given is never rejected without an attempt.
  await ledger.commit({ incidents: [incidentRow('third')] })
  ledger.requireWritable()
  expect(await billed(db)).toEqual(['before', 'third'])
  await ledger.close()
  await other.destroy()
  await close()
})

test('a record that the database rejects does not block other requests', async () => {
  const { db, close } = await postgresEngine.open()
  const ledger = newLedger(db)
  await ledger.commit({ incidents: [incidentRow('once')] })
  await expect(ledger.commit({ incidents: [incidentRow('once')] })).rejects.toThrow(/unique/i)
  ledger.requireWritable()
  await ledger.close()
  await close()
})

test('kill -9 loses no acknowledged record and leaves a database that opens', async () => {
  const place = await sqliteEngine.place()
  const acknowledged: string[] = []
  for (const run of ['one', 'two']) {
    const daemon = startTypescript(new URL('committing-process.ts', import.meta.url), [place.dataDir, run])
    for (let count = 0; count < 300; count++) acknowledged.push(await daemon.line())
    await daemon.kill('SIGKILL')
  }
  const db = await openDatabase(place.options)
  const stored = await billed(db)
  expect(stored).toEqual(expect.arrayContaining(acknowledged))
  expect(new Set(stored).size).toBe(stored.length)
  const spent = await db.selectFrom('spend_counters').select('points').execute()
  expect(spent).toEqual([{ points: stored.length }])
  expect((await sql`pragma integrity_check`.execute(db)).rows).toEqual([{ integrity_check: 'ok' }])
  await db.destroy()
  await place.remove()
})

/** A connection to PostgreSQL that breaks once, when `breaksAt` matches the traffic in the direction `towards`. */
async function breakingProxy(url: string, towards: 'server' | 'client', breaksAt: (chunk: string) => boolean) {
  const { port, hostname } = new URL(url)
  const sockets = new Set<Socket>()
  let armed = false
  const server: Server = createServer((client) => {
    const upstream = dial(Number(port), hostname)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => socket.destroy())
      socket.on('close', () => sockets.delete(socket))
    }
    const pass = (from: Socket, to: Socket, direction: 'server' | 'client') =>
      from.on('data', (chunk: Buffer) => {
        if (armed && direction === towards && breaksAt(chunk.toString('latin1'))) {
          armed = false
          client.destroy()
          upstream.destroy()
          return
        }
        to.write(chunk)
      })
    pass(client, upstream, 'server')
    pass(upstream, client, 'client')
    client.on('close', () => upstream.end())
    upstream.on('close', () => client.end())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port')
  const through = new URL(url)
  through.port = String(address.port)
  return {
    url: through.href,
    arm() {
      armed = true
    },
    isArmed: () => armed,
    async close() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

test.each([
  ['before the server has received it', 'server', 'insert into incidents'],
  ['after the server has committed, before its response', 'client', 'INSERT 0'],
] as const)('a connection that breaks %s loses no answer and bills nothing twice', async (_, towards, mark) => {
  const place = await postgresEngine.place()
  const proxy = await breakingProxy(place.databaseUrl ?? '', towards, (chunk) => chunk.includes(mark))
  const db = await openDatabase({ kind: 'postgres', url: proxy.url })
  const ledger = newLedger(db)
  await ledger.commit({ incidents: [incidentRow('before')] })
  proxy.arm()
  await Promise.all(['a', 'b', 'c'].map((id) => ledger.commit({ incidents: [incidentRow(id)] })))
  expect(proxy.isArmed()).toBe(false)
  expect(await billed(db)).toEqual(['a', 'b', 'before', 'c'])
  await expect(ledger.commit({ incidents: [incidentRow('a')] })).rejects.toThrow(/unique/i)
  await ledger.close()
  await db.destroy()
  await proxy.close()
  await place.remove()
})

test('a bill that an existing one blocks is rejected, even if the connection broke before that was known', async () => {
  const place = await postgresEngine.place()
  const proxy = await breakingProxy(place.databaseUrl ?? '', 'server', (chunk) =>
    chunk.includes('insert into incidents'),
  )
  const db = await openDatabase({ kind: 'postgres', url: proxy.url })
  const ledger = newLedger(db)
  await ledger.commit({ incidents: [incidentRow('a')] })
  proxy.arm()
  const [other, neighbour] = await Promise.allSettled([
    ledger.commit({ incidents: [{ ...incidentRow('a'), match_count: 7 }] }),
    ledger.commit({ incidents: [incidentRow('b')] }),
  ])
  expect([proxy.isArmed(), other.status, neighbour.status]).toEqual([false, 'rejected', 'fulfilled'])
  expect(await billed(db)).toEqual(['a', 'b'])
  await ledger.close()
  await db.destroy()
  await proxy.close()
  await place.remove()
})

test('a connection that breaks after the commit of a claimed request loses neither answer nor bill', async () => {
  const place = await postgresEngine.place()
  const proxy = await breakingProxy(place.databaseUrl ?? '', 'client', (chunk) => chunk.includes('COMMIT'))
  const db = await openDatabase({ kind: 'postgres', url: proxy.url })
  const ledger = newLedger(db)
  const answer = idempotencyResult('a', 'key')
  const claim = { ...answer, status: 0, body: '', lease_until: '2026-01-01T00:00:10.000Z' }
  await db.insertInto('idempotency_results').values(claim).execute()
  proxy.arm()
  await ledger.commit({ incidents: [incidentRow('a')], idempotency: answer, claim: 'a' })
  expect(proxy.isArmed()).toBe(false)
  expect([await billed(db), await db.selectFrom('idempotency_results').selectAll().execute()]).toEqual([
    ['a'],
    [answer],
  ])
  await ledger.close()
  await db.destroy()
  await proxy.close()
  await place.remove()
})
