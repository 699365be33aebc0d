import { expect, test } from 'vitest'
import { createMasterKey, SealBrokenError } from '../../../../src/daemon/platform/secrets/seal.ts'
import { openSigningKeys, type SigningKeys } from '../../../../src/daemon/records/evidence/signing-keys.ts'
import { isSignedBy, KEY_WINDOW_SLACK_MS } from '../../../../src/shared/evidence/keys.ts'
import { EVIDENCE_KEY_CACHE_MS } from '../../../../src/shared/spec-limits.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { describeEachEngine, postgresEngine, storeForEach } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { TEST_MASTER_KEY } from '../../../webhook-rows.ts'
import { draftOf, newTenant, openChainRig } from './chain-rig.ts'

const masterKey = createMasterKey(TEST_MASTER_KEY)

describeEachEngine('the keys that sign evidence', (engine) => {
  const store = storeForEach(engine)

  const open = (name?: string) => openSigningKeys(store.db, { masterKey, name, clock: systemClock })
  const rotate = async (keys: SigningKeys) => {
    const made = await store.db.transaction().execute((tx) => keys.rotate(tx))
    keys.forget()
    return made
  }

  test('are created once by daemons that start together, and found by later ones', async () => {
    const all = await Promise.all([open(), open(), open('named')])
    const kids = new Set<string>()
    for (const keys of [...all, await open('later')]) kids.add((await keys.current()).kid)
    expect(kids.size).toBe(1)
    expect(await all[0]?.published()).toHaveLength(1)
  })

  test('sign data that their published half verifies, and are stored sealed', async () => {
    const keys = await open('gateway.example.com')
    const signer = await keys.current()
    const [published] = await keys.published()
    expect(published).toMatchObject({ name: 'gateway.example.com', kid: signer.kid, retiredAt: null })
    if (!published) throw new Error('no key')
    expect(isSignedBy(published, 'a text', signer.sign('a text'))).toBe(true)
    expect(isSignedBy(published, 'another', signer.sign('a text'))).toBe(false)
    const other = createMasterKey('1'.repeat(64))
    await expect(openSigningKeys(store.db, { masterKey: other, name: undefined, clock: systemClock })).rejects.toThrow(
      SealBrokenError,
    )
  })

  test('that are retired stay published, no longer sign, and cannot be read from the store', async () => {
    const tenantId = await newTenant(store.db)
    const { ledger, keys, verify } = await openChainRig(store.db)
    await ledger.commit({ evidence: [draftOf(tenantId, 'before')] })
    const [before] = await keys.published()
    const made = await rotate(keys)
    await ledger.commit({ evidence: [draftOf(tenantId, 'after')] })
    const commits = await store.db
      .selectFrom('evidence_entries')
      .innerJoin('evidence_commits', 'evidence_commits.id', 'commit_id')
      .select('kid')
      .orderBy('seq')
      .execute()
    expect(commits.map(({ kid }) => kid)).toEqual([before?.kid, made.kid])
    expect((await keys.published()).map(({ kid, retiredAt }) => [kid, retiredAt === null])).toEqual(
      expect.arrayContaining([
        [made.kid, true],
        [before?.kid, false],
      ]),
    )
    expect(await verify(tenantId)).toMatchObject([{ ok: true, size: 2 }])
    const secrets = await store.db.selectFrom('evidence_keys').select(['kid', 'sealed_private_key']).execute()
    expect(secrets.find(({ kid }) => kid === before?.kid)?.sealed_private_key).toBeNull()
    await ledger.close()
  })

  test('never sign entries that lost their signature: neither at a start, nor when the active key is deleted', async () => {
    const tenantId = await newTenant(store.db)
    const { ledger, verify } = await openChainRig(store.db)
    await ledger.commit({ evidence: [draftOf(tenantId, 'one')] })
    await ledger.close()
    await store.db.updateTable('evidence_commits').set({ signature: '' }).execute()
    const logged: object[] = []
    const log = { error: (details: object) => void logged.push(details) }
    for (const isGone of [false, true]) {
      const retired_at = '2026-01-01T00:00:00.000Z'
      if (isGone) await store.db.updateTable('evidence_keys').set({ retired_at, sealed_private_key: null }).execute()
      await openSigningKeys(store.db, { masterKey, name: undefined, clock: systemClock, log })
      expect(await verify(tenantId)).toMatchObject([{ ok: false, firstBad: { seq: 0 } }])
    }
    expect(await store.db.selectFrom('evidence_commits').select('signature').execute()).toEqual([{ signature: '' }])
    expect(logged).toEqual([{ unsigned: 1 }, { unsigned: 1 }])
  })

  test('are replaced while the clock is before their creation, so that no signature is outside of its window', async () => {
    const tenantId = await newTenant(store.db)
    const fake = createFakeClock()
    let aheadMs = 0
    const clock = { ...fake, now: () => fake.now() + aheadMs }
    const { ledger, keys, verify } = await openChainRig(store.db, { clock })
    const write = (id: string) => ledger.commit({ evidence: [{ ...draftOf(tenantId, id), createdAtMs: clock.now() }] })
    await write('before')
    aheadMs = 3_600_000
    const ahead = await rotate(keys)
    await write('ahead')
    // The clock was corrected.
    aheadMs = 0
    await write('corrected')
    const fresh = await keys.current()
    expect(fresh.kid).not.toBe(ahead.kid)
    await write('later')
    expect((await keys.current()).kid).toBe(fresh.kid)
    expect(await verify(tenantId)).toMatchObject([{ ok: true, size: 4 }])
    // A further rotation, still before the end of the replaced key: the order of the keys stays clear.
    await rotate(keys)
    await write('last')
    expect(await verify(tenantId)).toMatchObject([{ ok: true, size: 5 }])
    const ends = (await keys.published()).map(({ retiredAt }) => retiredAt)
    expect(new Set(ends).size).toBe(4)
    await ledger.close()
  })

  test('are not adopted from a rotation that was rolled back', async () => {
    const keys = await open()
    const before = (await keys.current()).kid
    const failed = store.db.transaction().execute(async (tx) => {
      const made = await keys.rotate(tx)
      keys.forget()
      expect((await keys.currentIn(tx)).kid).toBe(made.kid)
      throw new Error('taken back')
    })
    await expect(failed).rejects.toThrow('taken back')
    expect((await keys.current()).kid).toBe(before)
  })
})

test('a new key is used within two seconds also when the clock was set back', async () => {
  const { db, close } = await postgresEngine.open()
  const fake = createFakeClock()
  let setMs = 0
  const clock = { ...fake, now: () => fake.now() + setMs }
  const open = () => openSigningKeys(db, { masterKey, name: 'a', clock })
  const [one, two] = [await open(), await open()]
  await two.current()
  const made = await db.transaction().execute((tx) => one.rotate(tx))
  // Within the tolerance of verifiers. A key from the future would be replaced.
  setMs = -KEY_WINDOW_SLACK_MS
  fake.advance(EVIDENCE_KEY_CACHE_MS)
  expect((await two.current()).kid).toBe(made.kid)
  await close()
})

// SQLite allows one daemon per file.
test('a new key is used by other daemons of one PostgreSQL within two seconds', async () => {
  const { db, close } = await postgresEngine.open()
  const clock = createFakeClock()
  const open = () => openSigningKeys(db, { masterKey, name: 'a', clock })
  const [one, two] = [await open(), await open()]
  const before = (await two.current()).kid
  const made = await db.transaction().execute((tx) => one.rotate(tx))
  one.forget()
  expect((await one.current()).kid).toBe(made.kid)
  clock.advance(EVIDENCE_KEY_CACHE_MS - 1)
  expect((await two.current()).kid).toBe(before)
  // Several daemons append changes to one chain and sign its checkpoints. There, an older key must not follow a newer one.
  expect((await two.currentIn(db)).kid).toBe(made.kid)
  clock.advance(1)
  expect((await two.current()).kid).toBe(made.kid)
  await close()
})
