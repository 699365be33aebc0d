import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { openDatabase } from '../../src/daemon/platform/db/database.ts'
import { type InstalledCli, installCli } from '../cli/installed-cli.ts'
import { describeEachEngine, sqliteEngine, type TestEngine, type TestPlace } from '../engines.ts'
import { type Gateway, startGateway } from '../harness.ts'
import { TEST_MASTER_KEY } from '../webhook-rows.ts'
import { runDaemon } from './daemon-process.ts'

const PASSPHRASE = 'a long passphrase of the tests'

let cli: InstalledCli
let home: string
beforeAll(async () => {
  cli = await installCli()
})
afterAll(() => cli.remove())
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'aigw-backup-test-'))
  await writeFile(join(home, 'master'), TEST_MASTER_KEY, { mode: 0o600 })
})
afterEach(() => rm(home, { recursive: true }))

type Store = Pick<TestPlace, 'dataDir' | 'databaseUrl'>
const storeOf = ({ config: { dataDir, database } }: Gateway): Store => ({
  dataDir,
  databaseUrl: database.kind === 'postgres' ? database.url : undefined,
})

const envOf = ({ dataDir, databaseUrl }: Store): Record<string, string> => ({
  AIGW_DATA_DIR: dataDir,
  ...(databaseUrl !== undefined && { AIGW_DATABASE_URL: databaseUrl }),
  AIGW_MASTER_KEY_FILE: join(home, 'master'),
  AIGW_BACKUP_PASSPHRASE: PASSPHRASE,
  CONFIGURATION_DIRECTORY: home,
})

const db = (store: Store, words: string[], env: Record<string, string> = {}) =>
  cli.run(['db', ...words], { env: { ...envOf(store), ...env } })

async function backUp(store: Store, folder = join(home, 'backups'), ...words: string[]): Promise<string> {
  const made = await db(store, ['backup', folder, '--field', 'file', ...words])
  expect(made, made.stderr).toMatchObject({ exitCode: 0 })
  return made.stdout.trim()
}

/** An empty place of the engine, removed after the test. */
async function freshPlace(engine: TestEngine): Promise<TestPlace> {
  const place = await engine.place({ migrated: false })
  onTestFinished(() => place.remove())
  return place
}

/** What must survive a restore: keys, spending, users and the lengths of the logs. */
async function contentOf(place: Pick<TestPlace, 'options'>) {
  const store = await openDatabase(place.options)
  try {
    const read = async (query: string) => (await sql.raw(query).execute(store)).rows
    return {
      keys: await read('select id, secret_hash, revoked_at from api_keys order by id'),
      spend: await read(
        'select tenant_id, holder, holder_id, period, nanos, points from spend_counters order by 1,2,3,4',
      ),
      users: await read('select id, email from users order by id'),
      entries: await read('select chain, seq, entry_hash from evidence_entries order by chain, seq'),
    }
  } finally {
    await store.destroy()
  }
}

const placeOf = ({ config }: Gateway): Pick<TestPlace, 'options'> => ({
  options: config.database.kind === 'sqlite' ? { kind: 'sqlite', dataDir: config.dataDir } : config.database,
})

/** Starts a daemon on a restored store, and verifies its log as any user would. */
async function verifyRestored(place: TestPlace, key: string): Promise<void> {
  const env = { ...envOf(place), AIGW_BOOTSTRAP_KEY: key }
  const daemon = runDaemon(['--listen', '127.0.0.1:0'], { home, env })
  const client = { AIGW_BASE_URL: await daemon.url(), AIGW_API_KEY: key }
  const verified = await cli.run(['audit', 'verify', '--fields', 'ok', '-o', 'json'], { env: client })
  expect(verified, verified.stderr).toMatchObject({ exitCode: 0 })
  expect(await daemon.end('SIGTERM')).toMatchObject({ code: 0 })
}

describeEachEngine('aigw db', (engine) => {
  test('each backup under load restores into a fresh store that verifies, with equal keys and spending', async () => {
    const gateway = await startGateway({ engine })
    const store = storeOf(gateway)
    let isLoaded = true
    const load = Promise.all(
      [1, 2, 3].map(async () => {
        for (let sent = 0; isLoaded || sent < 5; sent++) {
          expect((await gateway.chat({ prompt: 'Hello' })).status).toBe(200)
        }
      }),
    )
    const files = [await backUp(store), await backUp(store)]
    isLoaded = false
    await load
    files.push(await backUp(store))

    const before = await contentOf(placeOf(gateway))
    for (const file of files) {
      const place = await freshPlace(engine)
      const restored = await db(place, ['restore', file, '-o', 'json'])
      expect(restored, restored.stderr).toMatchObject({ exitCode: 0 })
      expect(JSON.parse(restored.stdout)).toMatchObject({ master_key: 'kept', problems: [] })
      const content = await contentOf(place)
      if (file === files.at(-1)) expect(content).toEqual(before)
      else expect(content.keys).toEqual(before.keys)
      const check = await db(place, ['check', '-o', 'json'])
      expect(check, check.stdout).toMatchObject({ exitCode: 0 })
      const checks = (JSON.parse(check.stdout) as { check: string }[]).map(({ check }) => check)
      expect(new Set(checks)).toEqual(new Set(['engine', 'references', 'chain', 'bills']))
      await verifyRestored(place, gateway.adminKey)
    }
  })

  test('a damaged, truncated or wrongly encrypted backup is refused and changes nothing', async () => {
    const gateway = await startGateway({ engine })
    await gateway.chat({ prompt: 'Hello' })
    const file = await backUp(storeOf(gateway))
    const bytes = await readFile(file)
    const changed = Buffer.from(bytes)
    changed[bytes.length >> 1] = (changed[bytes.length >> 1] ?? 0) ^ 1
    const place = await freshPlace(engine)
    const attempts: [Buffer, Record<string, string>, RegExp][] = [
      [changed, {}, /damaged|decrypted/],
      [bytes.subarray(0, bytes.length - 100), {}, /damaged|truncated/],
      [bytes.subarray(0, 40), {}, /damaged|decrypted/],
      [Buffer.from('not a backup at all, but a text'), {}, /not a backup/],
      [bytes, { AIGW_BACKUP_PASSPHRASE: 'another passphrase' }, /cannot be decrypted/],
      [bytes, { AIGW_BACKUP_PASSPHRASE: '' }, /is encrypted/],
    ]
    for (const [content, env, message] of attempts) {
      await writeFile(join(home, 'attempt'), content)
      const refused = await db(place, ['restore', join(home, 'attempt')], env)
      expect(refused.stderr).toMatch(message)
      expect(refused.exitCode).toBe(1)
    }
    expect((await readdir(place.dataDir)).filter((name) => name !== 'aigwd.lock')).toEqual([])
    // The database is still empty, so the whole backup can be restored.
    expect(await db(place, ['restore', file])).toMatchObject({ exitCode: 0 })
    // A full one is not overwritten, and a running daemon keeps its store.
    const again = await db(storeOf(gateway), ['restore', file])
    expect(again.exitCode).toBe(1)
    expect(again.stderr).toMatch(engine.name === 'sqlite' ? /in use by another aigwd/ : /not empty/)
  })

  test('kill -9 during a backup and a restore leaves stores that start, and the next attempt works', async () => {
    const gateway = await startGateway({ engine })
    for (let sent = 0; sent < 3; sent++) await gateway.chat({ prompt: 'Hello' })
    const source = storeOf(gateway)
    const file = await backUp(source)
    const place = await freshPlace(engine)
    const program = join(cli.folder, 'bin/aigwd.js')
    const folder = join(home, 'killed')
    for (const delayMs of [150, 300, 500]) {
      for (const [of, words] of [
        [source, ['backup', '--to', folder]],
        [place, ['restore', '--from', file]],
      ] as const) {
        const child = spawn(process.execPath, [program, 'db', ...words], {
          env: { PATH: process.env.PATH, HOME: home, ...envOf(of) },
          stdio: 'ignore',
          timeout: delayMs,
          killSignal: 'SIGKILL',
        })
        await once(child, 'close')
      }
    }
    expect((await gateway.chat({ prompt: 'Hello' })).status).toBe(200)
    await backUp(source, folder)
    const names = await readdir(source.dataDir)
    expect(names.filter((name) => name.includes('.copy-'))).toEqual([])
    const restored = await db(place, ['restore', file])
    // A restore that was not killed in time has already filled the database.
    if (restored.exitCode !== 0) expect(restored.stderr).toContain('not empty')
    await verifyRestored(place, gateway.adminKey)
  })

  test('status, migrate, prune and vacuum report what they did', async () => {
    const place = await engine.open()
    await place.db.destroy()
    onTestFinished(() => place.place.remove())
    const report = async (verb: string) => {
      const result = await db(place.place, [verb, '-o', 'json'])
      expect(result, result.stderr).toMatchObject({ exitCode: 0 })
      return JSON.parse(result.stdout)
    }
    expect(await report('status')).toMatchObject({ engine: engine.name, pending: [], backups: [] })
    expect(await report('migrate')).toEqual({ migrated: [], backup: null })
    expect(await report('prune')).toMatchObject({ deleted_rows: 0, deleted_files: [] })
    expect((await report('vacuum')).bytes).toBeGreaterThan(0)
  })
})

test('a restore replaces the store of a stopped daemon, and keeps the earlier one aside', async () => {
  const gateway = await startGateway()
  const place = await freshPlace(sqliteEngine)
  const file = await backUp(storeOf(gateway))
  await db(place, ['restore', file])
  const second = await db(place, ['restore', file, '--field', 'replaced'])
  expect(second, second.stderr).toMatchObject({ exitCode: 0 })
  expect((await stat(join(second.stdout.trim(), 'aigw.db'))).size).toBeGreaterThan(0)
  await verifyRestored(place, gateway.adminKey)
  const pruned = await db(place, ['prune', '--field', 'deleted_files', '-o', 'json'])
  expect(pruned, pruned.stderr).toMatchObject({ exitCode: 0 })
  await expect(stat(second.stdout.trim())).rejects.toThrow('ENOENT')
})

test('a backup for a recipient streams to stdout, and only with the master key restores on a new machine', async () => {
  const { generateIdentity, identityToRecipient } = await import('age-encryption')
  const identity = await generateIdentity()
  await writeFile(join(home, 'identity'), `# a comment\n${identity}\n`)
  const recipient = await identityToRecipient(identity)
  const gateway = await startGateway()
  const run = promisify(execFile)
  const stream = async (...more: string[]) => {
    const words = ['db', 'backup', '-', '--recipient', recipient, ...more]
    const env = { PATH: process.env.PATH, HOME: home, ...envOf(storeOf(gateway)), AIGW_BACKUP_PASSPHRASE: '' }
    const { stdout } = await run(process.execPath, [join(cli.folder, 'bin/aigw.js'), ...words], {
      env,
      encoding: 'buffer',
      maxBuffer: 64 * 1024 * 1024,
    })
    await writeFile(join(home, 'streamed'), stdout)
  }
  const place = await freshPlace(sqliteEngine)
  const restore = () =>
    db(place, ['restore', join(home, 'streamed'), '--identity', join(home, 'identity'), '--field', 'master_key'], {
      AIGW_MASTER_KEY_FILE: '',
      AIGW_BACKUP_PASSPHRASE: '',
    })
  await stream()
  expect((await restore()).stderr).toContain('does not have its master key')
  await stream('--with-master-key')
  expect(await restore()).toMatchObject({ exitCode: 0, stdout: 'restored\n' })
  expect((await readFile(join(place.dataDir, 'master.key'), 'utf8')).trim()).toBe(TEST_MASTER_KEY)
  await verifyRestored(place, gateway.adminKey)
})

test('a backup needs one kind of encryption, and keeps as many files as asked', async () => {
  const gateway = await startGateway()
  const store = storeOf(gateway)
  const none = await db(store, ['backup', home], { AIGW_BACKUP_PASSPHRASE: '' })
  expect(none).toMatchObject({ exitCode: 2 })
  expect(none.stderr).toContain('Choose one')
  const folder = join(home, 'kept')
  for (let made = 0; made < 3; made++) await backUp(store, folder, '--keep', '2')
  expect(await readdir(folder)).toHaveLength(2)
})

test('the daemon backs up an SQLite store before it migrates it, and keeps as many backups as configured', async () => {
  const place = await sqliteEngine.open()
  await sql`delete from kysely_migration where name = (select max(name) from kysely_migration)`.execute(place.db)
  await sql`drop table stored_providers`.execute(place.db)
  await place.db.destroy()
  onTestFinished(() => place.place.remove())
  const { dataDir } = place.place
  const old = join(home, 'old')
  await mkdir(old)
  await copyFile(join(dataDir, 'aigw.db'), join(old, 'aigw.db'))
  await writeFile(join(home, 'none.yaml'), 'database: { backups_before_migration: 0 }\n')
  const start = async (directory: string, ...args: string[]) => {
    const words = ['--listen', '127.0.0.1:0', '--data-dir', directory, ...args]
    const daemon = runDaemon(words, { home, env: { AIGW_MASTER_KEY_FILE: join(home, 'master') } })
    await daemon.url()
    await daemon.end('SIGTERM')
  }
  await start(old, '--config', join(home, 'none.yaml'))
  expect(await readdir(old)).not.toContain('backups')
  await start(dataDir)
  const [name] = await readdir(join(dataDir, 'backups'))
  expect(name).toMatch(/^before-migration-\d{8}T\d{9}Z\.tar\.gz$/)
  const restored = await db(place.place, ['restore', join(dataDir, 'backups', name ?? '')])
  expect(restored, restored.stderr).toMatchObject({ exitCode: 0 })
  await start(dataDir)
})
