import { hash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ensureFirstStart } from '../../../../src/daemon/identity/tenants/first-start.ts'
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { migrateDatabase } from '../../../../src/daemon/platform/db/migrate.ts'
import { newApiKey } from '../../../../src/shared/ids.ts'
import { describeEachEngine, type TestStore } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'

const KEY = /^sk-[0-9a-f]{64}\n$/
const sha256 = (key: string) => hash('sha256', key, 'hex')

describeEachEngine('first start', (engine) => {
  const clock = createFakeClock()
  let store: TestStore
  let dataDir: string

  beforeEach(async () => {
    store = await engine.open()
    dataDir = store.place.dataDir
  })
  afterEach(() => store.close())

  const start = (bootstrapKey?: string, db: Db = store.db, directory = dataDir) =>
    ensureFirstStart(db, { bootstrapKey, dataDir: directory, clock })
  const keys = () => store.db.selectFrom('api_keys').selectAll().orderBy('id').execute()
  const keyFile = () => readFile(join(dataDir, 'admin.key'), 'utf8')

  test('creates tenant default, administrator admin and a key in admin.key that only its owner can read', async () => {
    const started = await start()

    expect(started).toEqual({ createdKeyFile: join(dataDir, 'admin.key') })
    const tenants = await store.db.selectFrom('tenants').selectAll().execute()
    const users = await store.db.selectFrom('users').selectAll().execute()
    expect(tenants).toEqual([
      {
        id: expect.stringMatching(/^[0-9a-f]{24}$/),
        name: 'default',
        status: 'Active',
        created_at: '2026-01-01T00:00:00.000Z',
        updated_at: '2026-01-01T00:00:00.000Z',
        search_text: 'default',
        name_skeleton: 'default',
      },
    ])
    expect(users).toMatchObject([
      { tenant_id: tenants[0]?.id, username: 'admin', email: 'admin@localhost', role: 'admin', status: 1 },
    ])
    const text = await keyFile()
    expect(text).toMatch(KEY)
    expect((await stat(join(dataDir, 'admin.key'))).mode & 0o777).toBe(0o600)
    expect(await keys()).toMatchObject([
      {
        tenant_id: tenants[0]?.id,
        user_id: users[0]?.id,
        is_operator: 1,
        secret_hash: sha256(text.trim()),
        revoked_at: null,
      },
    ])
  })

  test('a second start changes nothing, with admin.key present or moved away', async () => {
    await start()
    const before = await keys()
    const text = await keyFile()
    expect(await start()).toEqual({})
    expect(await keyFile()).toBe(text)
    await rm(join(dataDir, 'admin.key'))
    expect(await start()).toEqual({})
    expect(await keys()).toEqual(before)
    expect((await readdir(dataDir)).filter((name) => name.startsWith('admin'))).toEqual([])
  })

  test('a configured key is the operator key, and no file is written', async () => {
    const key = newApiKey()
    expect(await start(key)).toEqual({})
    expect(await start(key)).toEqual({})
    expect(await keys()).toMatchObject([{ is_operator: 1, secret_hash: sha256(key), revoked_at: null }])
    expect((await readdir(dataDir)).filter((name) => name.startsWith('admin'))).toEqual([])
  })

  test('a new configured key replaces the earlier one, whose file is removed', async () => {
    await start()
    const first = (await keyFile()).trim()
    const second = newApiKey()
    expect(await start(second)).toEqual({})
    expect(await keys()).toMatchObject([
      { secret_hash: sha256(first), revoked_at: '2026-01-01T00:00:00.000Z' },
      { secret_hash: sha256(second), is_operator: 1, revoked_at: null },
    ])
    await expect(keyFile()).rejects.toThrow('ENOENT')
    expect(await start()).toEqual({})
    expect((await keys()).filter((key) => key.revoked_at === null)).toHaveLength(1)
  })

  test('a revoked key stays revoked, and the start warns about it', async () => {
    const [first, second] = [newApiKey(), newApiKey()]
    await start(first)
    await start(second)
    const before = await keys()
    expect(await start(first)).toEqual({ warning: expect.stringContaining('a revoked key') })
    expect(await keys()).toEqual(before)
  })

  test('an ordinary API key does not become the operator key', async () => {
    await start()
    const ordinary = newApiKey()
    const [operator] = await keys()
    if (operator === undefined) throw new Error('no operator key')
    const row = { ...operator, id: 'a'.repeat(24), is_operator: 0, secret_hash: sha256(ordinary) }
    await store.db.insertInto('api_keys').values(row).execute()
    const before = await keys()
    expect(await start(ordinary)).toEqual({ warning: expect.stringContaining('ordinary API key') })
    expect(await keys()).toEqual(before)
  })

  test('a start killed between the key file and the commit is repaired: the written key works', async () => {
    const failing = store.db.withPlugin({
      // The last statement of the transaction never arrives, as after a kill -9 before the commit.
      transformQuery({ node }) {
        const isKeyInsert = node.kind === 'InsertQueryNode' && JSON.stringify(node.into).includes('api_keys')
        if (isKeyInsert) throw new Error('killed')
        return node
      },
      transformResult: async ({ result }) => result,
    })
    await expect(start(undefined, failing)).rejects.toThrow('killed')
    expect(await keys()).toEqual([])
    const written = await keyFile()
    expect(written).toMatch(KEY)

    expect(await start()).toEqual({ createdKeyFile: join(dataDir, 'admin.key') })
    expect(await keyFile()).toBe(written)
    expect(await keys()).toMatchObject([{ secret_hash: sha256(written.trim()), revoked_at: null }])
  })

  test('a start killed while it wrote the key file does not break a later start', async () => {
    await writeFile(join(dataDir, 'admin.key.new'), 'sk-12')
    await start()
    expect(await keyFile()).toMatch(KEY)
    expect((await readdir(dataDir)).filter((name) => name.startsWith('admin'))).toEqual(['admin.key'])
  })

  test('the key of a deleted administrator is not reactivated', async () => {
    await start()
    const first = await keyFile()
    await store.db.deleteFrom('users').execute()
    expect(await keys()).toEqual([])
    await start()
    expect(await keyFile()).not.toBe(first)
    expect(await keys()).toMatchObject([{ secret_hash: sha256((await keyFile()).trim()) }])
  })

  test('an admin.key without a key stops the first start, and the error names the file', async () => {
    await writeFile(join(dataDir, 'admin.key'), 'changeme\n')
    await expect(start()).rejects.toThrow(join(dataDir, 'admin.key'))
    expect(await store.db.selectFrom('tenants').selectAll().execute()).toEqual([])
  })

  test('an unknown admin.key stays unchanged, with a warning', async () => {
    await start(newApiKey())
    await writeFile(join(dataDir, 'admin.key'), `${newApiKey()}\n`)
    expect(await start()).toEqual({ warning: expect.stringContaining('does not exist in this store') })
    expect(await keyFile()).toMatch(KEY)
  })

  test('concurrent first starts agree on one tenant, one administrator and one key', async () => {
    const directories = await Promise.all([1, 2, 3, 4].map(() => mkdtemp(join(tmpdir(), 'aigw-test-'))))
    // Separate connections on PostgreSQL. SQLite allows one daemon per directory, so there they share the store.
    const opened =
      engine.name === 'postgres' ? await Promise.all(directories.map(() => openDatabase(store.place.options))) : []
    try {
      await Promise.all(directories.map((directory, at) => start(undefined, opened[at] ?? store.db, directory)))
      expect(await store.db.selectFrom('tenants').selectAll().execute()).toHaveLength(1)
      expect(await store.db.selectFrom('users').selectAll().execute()).toHaveLength(1)
      const found = await keys()
      expect(found).toHaveLength(1)
      const files = (await Promise.all(directories.map((directory) => readdir(directory)))).flat()
      expect(files).toEqual(['admin.key'])
    } finally {
      await Promise.all(opened.map((db) => db.destroy()))
      await Promise.all(directories.map((directory) => rm(directory, { recursive: true })))
    }
  })

  test('concurrent first starts with different configured keys leave exactly one active', async () => {
    await start(newApiKey())
    const warnings = await Promise.all([newApiKey(), newApiKey(), newApiKey()].map((key) => start(key)))
    expect(warnings).toEqual([{}, {}, {}])
    expect((await keys()).filter((key) => key.revoked_at === null)).toHaveLength(1)
  })
})

describe('admin.key', () => {
  test('is written into a new data directory that only this user can read', async () => {
    const parent = await mkdtemp(join(tmpdir(), 'aigw-test-'))
    const dataDir = join(parent, 'state')
    await mkdir(join(parent, 'db'))
    const db = await openDatabase({ kind: 'sqlite', dataDir: join(parent, 'db') })
    await migrateDatabase(db)
    await ensureFirstStart(db, { bootstrapKey: undefined, dataDir, clock: createFakeClock() })
    expect((await stat(dataDir)).mode & 0o777).toBe(0o700)
    await db.destroy()
    await rm(parent, { recursive: true })
  })
})
