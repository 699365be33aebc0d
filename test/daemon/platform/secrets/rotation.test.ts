import { readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { PROVIDER_COLUMN } from '../../../../src/daemon/control/provider-store.ts'
import { CACHED_ANSWER_COLUMN, createAnswerCache } from '../../../../src/daemon/gateway/cache/answer-cache.ts'
import { DEFAULT_CACHE } from '../../../../src/daemon/gateway/config.ts'
import { STORED_REPLAY_COLUMN } from '../../../../src/daemon/gateway/governed/idempotency.ts'
import { STORED_RESPONSE_COLUMN } from '../../../../src/daemon/gateway/surfaces/responses/store.ts'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { MasterKeyError, masterKeyFile, openMasterKey } from '../../../../src/daemon/platform/secrets/master-key.ts'
import {
  createRotation,
  type MasterKeyRotation,
  ROTATION_LOOK_MS,
  ROTATION_PHASE_MS,
} from '../../../../src/daemon/platform/secrets/rotation.ts'
import {
  createMasterKey,
  HASH_PURPOSES,
  type MasterKey,
  openSecret,
  sealedPrefix,
  sealSecret,
} from '../../../../src/daemon/platform/secrets/seal.ts'
import type { SealedColumn } from '../../../../src/daemon/platform/secrets/sealed-column.ts'
import { PRIVATE_KEY_COLUMN } from '../../../../src/daemon/records/evidence/signing-keys.ts'
import { SIGNING_SECRET_COLUMNS } from '../../../../src/daemon/webhooks/signing-secret.ts'
import { addTenant } from '../../../accounts.ts'
import { describeEachEngine, type TestStore } from '../../../engines.ts'
import { createFakeClock, type FakeClock } from '../../../fake-clock.ts'
import { startGateway } from '../../../harness.ts'
import { endpointRow, TEST_MASTER_KEY } from '../../../webhook-rows.ts'

const NEXT = '0ff1ce'.repeat(11).slice(0, 64)
const COLUMNS = [
  ...SIGNING_SECRET_COLUMNS,
  CACHED_ANSWER_COLUMN,
  STORED_REPLAY_COLUMN,
  STORED_RESPONSE_COLUMN,
  PRIVATE_KEY_COLUMN,
  PROVIDER_COLUMN,
]
const silent = { info: () => {}, warn: () => {}, error: () => {} } as never
const TIME = '2026-01-01T00:00:00.000Z'

/** Stores texts of every column under a key. Returns how many. */
async function fill(db: Db, masterKey: MasterKey, count: number): Promise<number> {
  const { id: tenant_id } = await addTenant(db)
  for (let nth = 0; nth < count; nth++) {
    const endpoint = endpointRow({ tenant_id })
    const seal = (column: SealedColumn, row: Record<string, string>) =>
      sealSecret(masterKey, column.locationOf(row), `text ${nth}`)
    const secret = seal(SIGNING_SECRET_COLUMNS[0] as SealedColumn, endpoint as never)
    const previous = nth % 2 === 0 ? { previous_secret: secret, previous_secret_until: TIME } : {}
    await db
      .insertInto('webhook_endpoints')
      .values({ ...endpoint, secret, ...previous })
      .execute()
    const provider = { name: `${tenant_id}-${nth}` }
    await db
      .insertInto('stored_providers')
      .values({ ...provider, sealed: seal(PROVIDER_COLUMN, provider), created_at: TIME, updated_at: TIME })
      .execute()
    const id = `id_${nth}`
    const times = { created_at: TIME, expires_at: '2999-01-01T00:00:00.000Z' }
    await db
      .insertInto('stored_responses')
      .values({ tenant_id, id, user_id: 'u', ...times, sealed: seal(STORED_RESPONSE_COLUMN, { tenant_id, id }) })
      .execute()
    const cached = seal(CACHED_ANSWER_COLUMN, { tenant_id, id })
    await db
      .insertInto('cache_entries')
      .values({ tenant_id, id, key_hash: id, ...times, bytes: cached.length, sealed: cached })
      .execute()
    const scope = { tenant_id, api_key_id: 'k', route: '/chat', idempotency_key: id }
    const replay = { ...scope, fingerprint: 'f', request_id: id, status: 200, content_type: 'x', ...times }
    const isSealed = nth % 3 > 0
    const body = isSealed ? seal(STORED_REPLAY_COLUMN, scope) : 'plain'
    await db
      .insertInto('idempotency_results')
      .values({ ...replay, body, is_sealed: isSealed ? 1 : 0, lease_until: null })
      .execute()
  }
  return (await sealedTexts(db)).length
}

type Sealed = { column: SealedColumn; row: Record<string, string>; text: string }

/** All encrypted texts of the store. */
async function sealedTexts(db: Db): Promise<Sealed[]> {
  const found: Sealed[] = []
  for (const column of COLUMNS) {
    const { rows } = await sql<Record<string, string>>`select * from ${sql.table(column.table)}`.execute(db)
    for (const row of rows) {
      const text = row[column.column]
      if (typeof text === 'string' && (column.flag === undefined || Number(row[column.flag]) === 1))
        found.push({ column, row, text })
    }
  }
  return found
}

/** How many texts only the key opens, with this key alone. */
async function openedBy(db: Db, hex: string): Promise<number> {
  const masterKey = createMasterKey(hex)
  return (await sealedTexts(db)).filter(({ column, row, text }) => {
    try {
      openSecret(masterKey, column.locationOf(row), text)
      return true
    } catch {
      return false
    }
  }).length
}

const POST = '/api/admin/secrets/rotate-master'
const GET = '/api/admin/secrets/master-key'

describeEachEngine('a rotation of the master key', (engine) => {
  let store: TestStore
  let clock: FakeClock
  let dirs: string[]
  let daemons: { rotation: MasterKeyRotation }[]
  beforeEach(async () => {
    store = await engine.open()
    clock = createFakeClock()
    dirs = []
    daemons = []
  })
  afterEach(async () => {
    for (const { rotation } of daemons) await rotation.close()
    await store.close()
    for (const dir of dirs) await rm(dir, { recursive: true })
  })

  const newDir = async () => {
    const dir = await mkdtemp(join(tmpdir(), 'aigw-test-'))
    dirs.push(dir)
    return dir
  }
  /** A daemon's master key and rotation, on the same store. */
  async function daemon({
    configured,
    next,
    dataDir,
    log,
  }: {
    configured?: string
    next?: string
    dataDir?: string
    log?: (facts: unknown) => void
  }) {
    const logged = log === undefined ? silent : ({ info() {}, warn() {}, error: log } as never)
    const options = { configured, next, dataDir: dataDir ?? (await newDir()), clock, log: logged }
    const masterKey = await openMasterKey(store.db, options)
    const made = { masterKey, rotation: createRotation(store.db, { ...options, masterKey, columns: COLUMNS }) }
    daemons.push(made)
    return made
  }
  /** The phases follow the clock of the store, so their beginning is moved instead. */
  const letPhasePass = (phases: ('accept' | 'reseal')[] = ['accept', 'reseal']) =>
    store.db
      .updateTable('master_key_rotation')
      .set({ phase_at: '2020-01-01T00:00:00.000Z' })
      .where('phase', 'in', phases)
      .execute()
  const running = () => store.db.selectFrom('master_key_rotation').selectAll().executeTakeFirst()
  async function untilDone(...rotations: MasterKeyRotation[]) {
    while (await running()) {
      await letPhasePass()
      for (const one of rotations) one.wake()
      await new Promise((resolve) => setImmediate(resolve))
    }
    for (const one of rotations) {
      one.wake()
      await one.status()
    }
  }
  const begin = ({ rotation }: { rotation: MasterKeyRotation }) =>
    store.db.transaction().execute((tx) => rotation.begin(tx))
  const failureOf = (opening: Promise<unknown>) => opening.catch((error: unknown) => error)

  test('encrypts every text again, and keeps the keys of keyed hashes', async () => {
    const one = await daemon({ configured: TEST_MASTER_KEY, next: NEXT })
    const count = await fill(store.db, one.masterKey, 50)
    const hashKeys = HASH_PURPOSES.map((purpose) => one.masterKey.keyFor(purpose).export())
    await begin(one)
    await untilDone(one.rotation)
    expect([count, await openedBy(store.db, NEXT), await openedBy(store.db, TEST_MASTER_KEY)]).toEqual([
      count,
      count,
      0,
    ])
    expect(count).toBeGreaterThan(200)
    const plain = await store.db.selectFrom('idempotency_results').where('is_sealed', '=', 0).select('body').execute()
    expect(new Set(plain.map(({ body }) => body))).toEqual(new Set(['plain']))
    const again = await daemon({ configured: NEXT })
    for (const { masterKey } of [one, again])
      expect(HASH_PURPOSES.map((purpose) => masterKey.keyFor(purpose).export())).toEqual(hashKeys)
    expect(await failureOf(daemon({ configured: TEST_MASTER_KEY }))).toBeInstanceOf(MasterKeyError)
  })

  test.each([
    ['only the earlier key', { configured: TEST_MASTER_KEY }],
    ['only the new key', { configured: NEXT }],
    ['both keys', { configured: TEST_MASTER_KEY, next: NEXT }],
  ])('that was killed in any phase is continued by a daemon with %s', async (_, keys) => {
    const first = await daemon({ configured: TEST_MASTER_KEY, next: NEXT })
    const count = await fill(store.db, first.masterKey, 30)
    await begin(first)
    await first.rotation.close()
    // In the first phase: nothing is encrypted again.
    const second = await daemon(keys)
    expect(second.masterKey.id).toBe(first.masterKey.id)
    await second.rotation.close()
    // In the second phase: a part is encrypted again.
    await store.db.updateTable('master_key_rotation').set({ phase: 'reseal' }).execute()
    const [endpoint] = await sealedTexts(store.db)
    const part = createMasterKey(NEXT)
    await sql`update webhook_endpoints set secret = ${sealSecret(part, endpoint?.column.locationOf(endpoint.row) as never, 'x')}
      where id = ${endpoint?.row.id}`.execute(store.db)
    const third = await daemon(keys)
    expect(third.masterKey.id).toBe(part.id)
    await untilDone(third.rotation)
    expect(await openedBy(store.db, NEXT)).toBe(count)
  })

  test('keeps a change that is made at the same time, and skips a text that no key opens', async () => {
    const one = await daemon({ configured: TEST_MASTER_KEY, next: NEXT })
    const count = await fill(store.db, one.masterKey, 3)
    const [first] = await sealedTexts(store.db)
    const broken = `v1.${'A'.repeat(80)}`
    await sql`update webhook_endpoints set secret = ${broken} where id = ${first?.row.id}`.execute(store.db)
    await begin(one)
    await untilDone(one.rotation)
    expect(await openedBy(store.db, NEXT)).toBe(count - 1)
  })

  test('of a generated key replaces its file, also after a kill before the end', async () => {
    const dataDir = await newDir()
    const one = await daemon({ dataDir })
    const before = (await readFile(masterKeyFile(dataDir), 'utf8')).trim()
    await begin(one)
    await untilDone(one.rotation)
    await one.rotation.close()
    const after = (await readFile(masterKeyFile(dataDir), 'utf8')).trim()
    expect([after === before, createMasterKey(after).id]).toEqual([false, one.masterKey.id])
    expect((await readFile(`${masterKeyFile(dataDir)}.old`, 'utf8')).trim()).toBe(before)
    const two = await daemon({ dataDir })
    expect(two.masterKey.id).toBe(one.masterKey.id)
  })

  test('waits for texts that were encrypted just before it, and encrypts them too', async () => {
    const one = await daemon({ configured: TEST_MASTER_KEY, next: NEXT })
    const count = await fill(store.db, one.masterKey, 3)
    const [text] = await sealedTexts(store.db)
    await begin(one)
    while ((await running())?.phase !== 'reseal') {
      if (engine.name === 'postgres') await letPhasePass(['accept'])
      one.rotation.wake()
      await new Promise((resolve) => setImmediate(resolve))
    }
    const early = createMasterKey(TEST_MASTER_KEY)
    await expect.poll(() => openedBy(store.db, NEXT)).toBe(count)
    // A commit that was waiting while the pass ran.
    const sealed = sealSecret(early, text?.column.locationOf(text.row) as never, 'late')
    await sql`update webhook_endpoints set secret = ${sealed} where id = ${text?.row.id}`.execute(store.db)
    expect(await openedBy(store.db, NEXT)).toBe(count - 1)
    await untilDone(one.rotation)
    expect(await openedBy(store.db, NEXT)).toBe(count)
  })

  test('replaces the key file although the next key could not be kept at first', async () => {
    const dataDir = await newDir()
    const one = await daemon({ dataDir })
    const before = one.masterKey.id
    // The rotation was begun elsewhere, and the file of the next key cannot be written.
    const elsewhere = await daemon({
      configured: (await readFile(masterKeyFile(dataDir), 'utf8')).trim(),
      next: NEXT,
    })
    const blocked = `${masterKeyFile(dataDir)}.next.new`
    await mkdir(join(blocked, 'x'), { recursive: true })
    await begin(elsewhere)
    one.rotation.wake()
    await one.rotation.status()
    await untilDone(elsewhere.rotation, one.rotation)
    await rm(blocked, { recursive: true })
    const after = async () => createMasterKey((await readFile(masterKeyFile(dataDir), 'utf8')).trim()).id
    await expect
      .poll(async () => {
        clock.advance(ROTATION_LOOK_MS)
        one.rotation.wake()
        return after()
      })
      .toBe(createMasterKey(NEXT).id)
    expect([one.masterKey.id, before === one.masterKey.id]).toEqual([createMasterKey(NEXT).id, false])
  })

  test('names the texts that no key opens, at start', async () => {
    const one = await daemon({ configured: TEST_MASTER_KEY })
    const count = await fill(store.db, one.masterKey, 6)
    await expect.poll(() => one.rotation.health()).toEqual({ isCurrent: true, unopened: 0 })
    const texts = await sealedTexts(store.db)
    const stranger = createMasterKey('bad0'.repeat(16))
    const [hook, other] = texts
    const response = texts.find(({ column }) => column === STORED_RESPONSE_COLUMN)
    const set = ({ column, row }: Sealed, text: string) =>
      sql`update ${sql.table(column.table)} set ${sql.ref(column.column)} = ${text} where id = ${row.id}`.execute(
        store.db,
      )
    for (const text of [hook, response])
      await set(text as Sealed, sealSecret(stranger, (text as Sealed).column.locationOf((text as Sealed).row), 'x'))
    // Encrypted with the right key, but changed.
    await set(other as Sealed, `${other?.text.slice(0, -4)}AAAA`)
    const lines: unknown[] = []
    const two = await daemon({ configured: TEST_MASTER_KEY, log: (facts) => lines.push(facts) })
    await expect.poll(() => two.rotation.health()).toEqual({ isCurrent: true, unopened: 3 })
    expect(count).toBeGreaterThan(3)
    expect(lines).toEqual([
      {
        unopened: 3,
        texts: [
          { table: 'webhook_endpoints', column: 'secret', count: 2 },
          { table: 'stored_responses', column: 'sealed', count: 1 },
        ],
      },
    ])
  })

  test('is rejected without a next key, and with the current one', async () => {
    expect(await failureOf(begin(await daemon({ configured: TEST_MASTER_KEY })))).toMatchObject({
      code: 'NEXT_MASTER_KEY_MISSING',
    })
    expect(await failureOf(begin(await daemon({ configured: TEST_MASTER_KEY, next: TEST_MASTER_KEY })))).toMatchObject({
      code: 'NEXT_MASTER_KEY_MISSING',
    })
  })

  if (engine.name === 'postgres') {
    /** A daemon that sees nothing of the store from the returned call on, until it is called again. */
    async function rotateWhileAway(away: Awaited<ReturnType<typeof daemon>>) {
      await away.rotation.status()
      const one = await daemon({ configured: TEST_MASTER_KEY, next: NEXT })
      await fill(store.db, one.masterKey, 2)
      await begin(one)
      await untilDone(one.rotation)
      await one.rotation.close()
      expect(away.masterKey.id).toBe(createMasterKey(TEST_MASTER_KEY).id)
      return one
    }
    const look = async (away: { rotation: MasterKeyRotation }, until: () => boolean) => {
      while (!until()) {
        clock.advance(ROTATION_LOOK_MS)
        await new Promise((resolve) => setImmediate(resolve))
      }
      await away.rotation.status()
    }
    const location = STORED_RESPONSE_COLUMN.locationOf({ tenant_id: 't', id: 'r' })

    test('that ended while a daemon was away makes this daemon use the next key that it knows', async () => {
      const away = await daemon({ configured: TEST_MASTER_KEY, next: NEXT })
      await rotateWhileAway(away)
      await look(away, () => away.masterKey.id === createMasterKey(NEXT).id)
      expect(away.rotation.health().isCurrent).toBe(true)
    })

    test('that ended while a daemon was away makes this daemon encrypt nothing if it lacks the key', async () => {
      const away = await daemon({ configured: TEST_MASTER_KEY })
      await rotateWhileAway(away)
      await look(away, () => !away.rotation.health().isCurrent)
      expect(() => sealSecret(away.masterKey, location, 'x')).toThrow('rotated while this daemon was away')
      // An answer that only the cache wanted to encrypt is sent nevertheless.
      const deps = { db: store.db, clock, log: silent, masterKey: away.masterKey }
      const cache = createAnswerCache(deps, DEFAULT_CACHE)
      const answer = { original: 'a', storedAtMs: 0, recorded: 'x' }
      expect(await cache.toRow(answer, { tenantId: 't', keyHash: 'h', keptDays: null })).toBeUndefined()
      // Another rotation, which shows this daemon no key either.
      const next = await daemon({ configured: NEXT, next: 'cafe'.repeat(16) })
      await begin(next)
      away.rotation.wake()
      await untilDone(next.rotation)
      expect(away.rotation.health().isCurrent).toBe(false)
    })

    test('is not begun by a daemon that was away, because no other daemon could read its row', async () => {
      const away = await daemon({ configured: TEST_MASTER_KEY, next: 'cafe'.repeat(16) })
      await rotateWhileAway(away)
      expect(await failureOf(begin(away))).toMatchObject({ code: 'MASTER_KEY_OUTDATED' })
      expect(await running()).toBeUndefined()
      const knowing = await daemon({ configured: TEST_MASTER_KEY, next: NEXT })
      expect(knowing.masterKey.id).toBe(createMasterKey(NEXT).id)
    })

    test('is followed by every daemon of the store, before a text is encrypted with the new key', async () => {
      const one = await daemon({ configured: TEST_MASTER_KEY, next: NEXT })
      const two = await daemon({ configured: TEST_MASTER_KEY })
      const location = STORED_RESPONSE_COLUMN.locationOf({ tenant_id: 't', id: 'r' })
      await begin(one)
      one.rotation.wake()
      clock.advance(ROTATION_LOOK_MS)
      const both = [one, two]
      const accepts = () =>
        both.every(({ masterKey }) => masterKey.openingKeys(createMasterKey(NEXT).id, 'check').length > 0)
      while (!accepts()) {
        clock.advance(ROTATION_LOOK_MS)
        await new Promise((resolve) => setImmediate(resolve))
      }
      expect((await running())?.phase).toBe('accept')
      expect(ROTATION_PHASE_MS).toBeGreaterThan(2 * ROTATION_LOOK_MS)
      const earlier = sealSecret(two.masterKey, location, 'text')
      await untilDone(one.rotation, two.rotation)
      while (two.masterKey.id !== createMasterKey(NEXT).id) await new Promise((resolve) => setImmediate(resolve))
      for (const { masterKey } of both) {
        expect(sealSecret(masterKey, location, 'x').startsWith(sealedPrefix(createMasterKey(NEXT).id))).toBe(true)
        expect(openSecret(masterKey, location, earlier)).toBe('text')
      }
    })
  }

  test('is begun by the operator while requests run, and is shown and audited', async () => {
    const gateway = await startGateway({ engine, clock, nextMasterKey: NEXT })
    const hook = await gateway.call('POST', '/api/admin/webhooks', { url: 'http://127.0.0.1:61999/h', events: ['*'] })
    expect(hook.status).toBe(201)
    const house = { name: 'house', base_url: gateway.upstream.url, api_key: 'sk-of-the-house-55aa' }
    expect((await gateway.call('POST', '/api/admin/providers', house)).status).toBe(201)
    const begun = await gateway.call('POST', POST)
    expect([begun.status, begun.body.master_key.rotation]).toEqual([202, expect.objectContaining({ phase: 'accept' })])
    for (;;) {
      await gateway.app.db.updateTable('master_key_rotation').set({ phase_at: TIME }).execute()
      clock.advance(ROTATION_LOOK_MS)
      const { body } = await gateway.call('GET', GET)
      expect((await gateway.call('GET', '/api/admin/webhooks')).status).toBe(200)
      if (body.master_key.rotation === null) break
    }
    expect(await openedBy(gateway.app.db, TEST_MASTER_KEY)).toBe(0)
    await gateway.restart()
    const { body } = await gateway.call('GET', GET)
    expect(body.master_key).toMatchObject({ id: createMasterKey(NEXT).id, rotation: null })
    expect((await gateway.chat({ prompt: 'hi', model: 'house/m' })).status).toBe(200)
    expect((await gateway.call('POST', `/api/admin/webhooks/${hook.body.webhook.id}/test`)).status).toBe(202)
  })
})

test('every module that encrypts texts names their column for the rotation', () => {
  const root = new URL('../../../../src/daemon/', import.meta.url).pathname
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !file.startsWith('platform/secrets/'),
  )
  const encrypting = files.filter((file) => /\bsealSecret\(/.test(readFileSync(join(root, file), 'utf8')))
  const named = encrypting.filter((file) => /: (readonly )?SealedColumn\b/.test(readFileSync(join(root, file), 'utf8')))
  expect(named).toEqual(encrypting)
  expect(new Set(COLUMNS.map(({ table }) => table)).size).toBe(encrypting.length)
})
