import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import { MasterKeyError, masterKeyFile, openMasterKey } from '../../../../src/daemon/platform/secrets/master-key.ts'
import { openSecret, type SealedLocation, sealSecret } from '../../../../src/daemon/platform/secrets/seal.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { describeEachEngine, type TestStore } from '../../../engines.ts'

const PLACE: SealedLocation = { purpose: 'webhook-signing', table: 't', row: 'r', tenant: 'x' }
const CONFIGURED = '0af1'.repeat(16)

describeEachEngine('the master key', (engine) => {
  let store: TestStore
  let otherDir: string
  let warnings: { facts: object; message: string }[] = []
  beforeEach(async () => {
    warnings = []
    store = await engine.open()
    otherDir = await mkdtemp(join(tmpdir(), 'aigw-test-'))
  })
  afterEach(async () => {
    await store.close()
    await rm(otherDir, { recursive: true })
  })

  const open = (configured?: string, dataDir = store.place.dataDir, db = store.db) =>
    openMasterKey(db, {
      configured,
      dataDir,
      clock: systemClock,
      log: { warn: (facts, message) => void warnings.push({ facts, message }) },
    })
  const failureOf = (opening: Promise<unknown>) => opening.catch((error: unknown) => error)

  test('is created once, readable only by this user, and reused at the next start', async () => {
    const first = await open()
    const file = masterKeyFile(store.place.dataDir)
    const text = await readFile(file, 'utf8')
    expect(text).toMatch(/^[0-9a-f]{64}\n$/)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    const sealed = sealSecret(first, PLACE, 'secret')
    expect(openSecret(await open(), PLACE, sealed)).toBe('secret')
    expect(await readFile(file, 'utf8')).toBe(text)
  })

  test.each([
    [0o600, false],
    [0o640, true],
    [0o604, true],
  ])('in a file of mode %o is used, with a warning if others may read it: %s', async (mode, warns) => {
    await open()
    const file = masterKeyFile(store.place.dataDir)
    await chmod(file, mode)
    await open()
    const warning = { facts: { file, mode: mode.toString(8) }, message: expect.stringContaining('chmod 600') }
    expect(warnings).toEqual(warns ? [warning] : [])
  })

  test('that the operator configured is used, and no file is created', async () => {
    const sealed = sealSecret(await open(CONFIGURED), PLACE, 'secret')
    await expect(stat(masterKeyFile(store.place.dataDir))).rejects.toThrow('ENOENT')
    expect(openSecret(await open(CONFIGURED), PLACE, sealed)).toBe('secret')
  })

  test('from a killed first start is used', async () => {
    await writeFile(masterKeyFile(store.place.dataDir), `${CONFIGURED}\n`)
    const sealed = sealSecret(await open(), PLACE, 'secret')
    expect(openSecret(await open(CONFIGURED), PLACE, sealed)).toBe('secret')
  })

  test('stops the start of a daemon with another one, and the error names its source', async () => {
    await open()
    expect(await failureOf(open(CONFIGURED))).toMatchObject({
      name: 'MasterKeyError',
      message: expect.stringContaining('AIGW_MASTER_KEY_FILE differs from the one'),
    })
    await writeFile(masterKeyFile(otherDir), `${CONFIGURED}\n`)
    const failure = await failureOf(open(undefined, otherDir))
    expect(failure).toMatchObject({ message: expect.stringContaining(masterKeyFile(otherDir)) })
    expect(String(failure)).not.toContain(CONFIGURED)
  })

  test('stops the start of a daemon without one, and no new one is created', async () => {
    await open()
    const failure = await failureOf(open(undefined, otherDir))
    expect(failure).toBeInstanceOf(MasterKeyError)
    expect(failure).toMatchObject({ message: expect.stringContaining('the same file') })
    await expect(stat(masterKeyFile(otherDir))).rejects.toThrow('ENOENT')
  })

  test('in an invalid file stops the start without showing the content', async () => {
    await writeFile(masterKeyFile(store.place.dataDir), 'something else')
    const failure = await failureOf(open())
    expect(failure).toBeInstanceOf(MasterKeyError)
    expect(String(failure)).not.toContain('something else')
  })

  test('is the same for daemons that start together on one database and one data directory', async () => {
    const second = await openDatabase(store.place.options)
    try {
      const [one, other] = await Promise.all([open(), open(undefined, store.place.dataDir, second)])
      expect(openSecret(other, PLACE, sealSecret(one, PLACE, 'secret'))).toBe('secret')
    } finally {
      await second.destroy()
    }
  })
})
