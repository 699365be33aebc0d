import { appendFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { compareWithFile, startComparison } from '../../../../src/daemon/records/evidence/checkpoint-file.ts'
import {
  type CheckpointPublisherOptions,
  createCheckpointPublisher,
} from '../../../../src/daemon/records/evidence/checkpoint-publisher.ts'
import { type Checkpoints, createCheckpoints } from '../../../../src/daemon/records/evidence/checkpoints.ts'
import { createLosses, listLosses } from '../../../../src/daemon/records/evidence/losses.ts'
import {
  frontierOf,
  proveConsistency,
  proveInclusion,
  rootOfChain,
} from '../../../../src/daemon/records/evidence/proofs.ts'
import { findCheckpointOver, listChains, readChain } from '../../../../src/daemon/records/evidence/store.ts'
import { rootOfInclusion, treeRoot, verifyConsistency } from '../../../../src/shared/evidence/merkle.ts'
import { verifyNote } from '../../../../src/shared/evidence/note.ts'
import { deferred } from '../../../deferred.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type ChainRig, draftOf, newTenant, openChainRig, problemsOf } from './chain-rig.ts'

const HOUR_MS = 3_600_000

describeEachEngine('checkpoints', (engine) => {
  const store = storeForEach(engine)
  let rig: ChainRig
  let clock: ReturnType<typeof createFakeClock>
  let tenantId: string
  const logged: object[] = []
  let opened: Checkpoints[]

  beforeEach(async () => {
    clock = createFakeClock()
    rig = await openChainRig(store.db, { clock, daemonId: 'abcdefabcdef' })
    tenantId = await newTenant(store.db)
    logged.length = 0
    opened = []
  })
  afterEach(async () => {
    for (const checkpoints of opened) await checkpoints.close()
    await rig.ledger.close()
  })

  const chain = 'requests-abcdefabcdef'
  const log = {
    info: (details: object) => void logged.push(details),
    error: (details: object) => void logged.push(details),
  }
  function checkpointsTo(options: Partial<CheckpointPublisherOptions> = {}): Checkpoints {
    const publisher = createCheckpointPublisher({ file: undefined, url: undefined, log, ...options })
    const losses = createLosses({ db: store.db, clock, log })
    const made = createCheckpoints({ db: store.db, clock, log, keys: rig.keys, losses, publisher })
    opened.push(made)
    return made
  }
  let written = 0
  const write = (count: number) =>
    Promise.all(
      Array.from({ length: count }, () =>
        rig.ledger.commit({ evidence: [draftOf(tenantId, `jti-${written++}`, {}, clock.now())] }),
      ),
    )
  const leaves = async () =>
    (await readChain(store.db, tenantId, chain, { from: 0, limit: 10_000 })).map(({ entry_hash }) =>
      Buffer.from(entry_hash, 'hex'),
    )
  const sizes = async () =>
    (await store.db.selectFrom('evidence_checkpoints').select('tree_size').orderBy('tree_size').execute()).map(
      ({ tree_size }) => tree_size,
    )

  test('cover all entries, are signed, and are created only once for the same entries', async () => {
    const checkpoints = checkpointsTo()
    expect(await checkpoints.make(tenantId)).toEqual([])
    await write(5)
    const [made, ...others] = await checkpoints.make(tenantId)
    expect([made?.tree_size, made?.chain, others]).toEqual([5, chain, []])
    expect(made?.root).toBe(treeRoot(Buffer.concat(await leaves())).toString('hex'))
    const held = verifyNote(made?.note ?? '', await rig.keys.published())
    expect(held).toMatchObject({ size: 5, root: Buffer.from(made?.root ?? '', 'hex').toString('base64') })
    expect(await checkpoints.make(tenantId)).toEqual([made])
    expect(await checkpoints.make(tenantId, 'another')).toEqual([])
    expect(await listChains(store.db, tenantId)).toMatchObject([{ chain, size: 5, checkpoint: { tree_size: 5 } }])
  })

  test('are due after 1,000 entries, and after an hour for any', async () => {
    const checkpoints = checkpointsTo()
    await write(999)
    await checkpoints.run()
    expect(await sizes()).toEqual([])
    await write(1)
    await checkpoints.run()
    expect(await sizes()).toEqual([1000])
    await write(1)
    clock.advance(HOUR_MS - 1)
    await checkpoints.run()
    expect(await sizes()).toEqual([1000])
    clock.advance(1)
    await checkpoints.run()
    await checkpoints.run()
    expect(await sizes()).toEqual([1000, 1001])
    clock.advance(2 * HOUR_MS)
    await checkpoints.run()
    expect(await sizes()).toEqual([1000, 1001])
    expect(await findCheckpointOver(store.db, tenantId, chain, 999)).toMatchObject({ tree_size: 1000 })
    expect(await findCheckpointOver(store.db, tenantId, chain, 1000)).toMatchObject({ tree_size: 1001 })
    expect((await rig.verify(tenantId))[0]).toMatchObject({ ok: true, size: 1001, checkpointsHeld: 2 })
  })

  test('prove with few rows that an entry is in the chain, and that it only grew, with and without nodes', async () => {
    const checkpoints = checkpointsTo()
    for (const count of [300, 500, 2]) {
      await write(count)
      await checkpoints.make(tenantId)
    }
    const all = await leaves()
    const { db } = store
    async function proveAll(): Promise<void> {
      for (const size of [1, 2, 255, 256, 257, 512, 700, 802]) {
        const root = treeRoot(Buffer.concat(all.slice(0, size)))
        expect(await rootOfChain(db, tenantId, chain, size)).toEqual(root)
        expect((await frontierOf(db, tenantId, chain, size)).root()).toEqual(root)
        for (const index of new Set([0, size >> 1, size - 1])) {
          const path = await proveInclusion(db, tenantId, chain, index, size)
          expect(rootOfInclusion(all[index] as Buffer, index, size, path)).toEqual(root)
        }
        const path = await proveConsistency(db, tenantId, chain, size, 802)
        const grown = { oldSize: size, oldRoot: root, newSize: 802, newRoot: treeRoot(Buffer.concat(all)), path }
        expect(verifyConsistency(grown)).toBe(true)
      }
    }
    expect(
      await db.selectFrom('evidence_nodes').select(['level', 'node_index']).orderBy('node_index').execute(),
    ).toEqual([0, 1, 2].map((node_index) => ({ level: 1, node_index })))
    await proveAll()
    await db.updateTable('evidence_nodes').set({ hash: 'ab' }).where('node_index', '=', 1).execute()
    await proveAll()
    await db.deleteFrom('evidence_nodes').execute()
    await proveAll()
    await expect(rootOfChain(db, tenantId, chain, 803)).rejects.toThrow(RangeError)
  })

  const setHash = (entry_hash: string, seq: number) =>
    store.db.updateTable('evidence_entries').set({ entry_hash }).where('seq', '=', seq).execute()
  const damages: Record<string, () => Promise<unknown>> = {
    'lacks an entry': () => store.db.deleteFrom('evidence_entries').where('seq', '=', 302).execute(),
    'lacks an entry of those under its checkpoint': () =>
      store.db.deleteFrom('evidence_entries').where('seq', '=', 280).execute(),
    'has two hashes in one entry and lacks the next': async () => {
      const [one, next] = (await leaves()).slice(301, 303).map((hash) => hash.toString('hex'))
      await setHash(`${one}${next}`, 301)
      await store.db.deleteFrom('evidence_entries').where('seq', '=', 302).execute()
    },
    'has a hash that is none': () => setHash('AB'.repeat(32), 301),
    'was cut': () => store.db.deleteFrom('evidence_entries').where('seq', '>=', 200).execute(),
    'is gone': () => store.db.deleteFrom('evidence_entries').execute(),
    'has another entry under its checkpoint': () => setHash('ab'.repeat(32), 290),
    'has another subtree than was signed': () =>
      store.db
        .updateTable('evidence_nodes')
        .set({ hash: 'ab'.repeat(32) })
        .execute(),
    'has a checkpoint that says something else than its note': () =>
      store.db
        .updateTable('evidence_checkpoints')
        .set({ root: 'ab'.repeat(32) })
        .execute(),
  }
  // The daemon that created the last checkpoint has cached its subtrees and does not read them from the store.
  const askers = Object.keys(damages).flatMap((damage) =>
    damage === 'has another subtree than was signed'
      ? [[damage, 'next']]
      : [
          [damage, 'same'],
          [damage, 'next'],
        ],
  )
  test.each(askers)(
    'are not signed for a log that %s, by the %s daemon; other logs get theirs',
    async (damage, asker) => {
      const first = checkpointsTo()
      await write(300)
      await first.make(tenantId)
      const checkpoints = asker === 'same' ? first : checkpointsTo()
      await write(5)
      await damages[String(damage)]?.()
      logged.length = 0
      expect(await checkpoints.make(tenantId)).toEqual([])
      expect(await checkpoints.make(tenantId)).toEqual([])
      expect(logged).toMatchObject([{ tenant_id: tenantId, chain, cause: expect.stringContaining('entries_') }])
      expect(await listLosses(store.db)).toMatchObject([{ tenant_id: tenantId, chain, acknowledged_at: null }])

      clock.advance(HOUR_MS)
      const other = await newTenant(store.db)
      await rig.ledger.commit({ evidence: [draftOf(other, 'jti-other', {}, clock.now())] })
      clock.advance(HOUR_MS)
      await checkpoints.run()
      expect(await sizes()).toEqual([1, 300])
    },
  )

  test('are not signed for a log with an entry missing before the first of them', async () => {
    const checkpoints = checkpointsTo()
    await write(5)
    await store.db.deleteFrom('evidence_entries').where('seq', '=', 2).execute()
    expect(await checkpoints.make(tenantId)).toEqual([])
    clock.advance(HOUR_MS)
    await checkpoints.run()
    expect(await sizes()).toEqual([])
  })

  test('of a deleted log remain, and prove that it existed', async () => {
    await write(3)
    const [made] = await checkpointsTo().make(tenantId)
    await store.db.deleteFrom('evidence_entries').execute()
    expect(await listChains(store.db, tenantId)).toEqual([
      { tenantId, chain, size: 0, headHash: '0'.repeat(64), checkpoint: made },
    ])
    expect(await rig.verify(tenantId)).toMatchObject([{ chain, ok: false, size: 0, firstBad: { seq: 0 } }])
  })

  test('are also due for entries that were written while the clock was far ahead', async () => {
    const checkpoints = checkpointsTo()
    const aheadMs = clock.now() + 30 * 24 * HOUR_MS
    await rig.ledger.commit({ evidence: [draftOf(tenantId, 'ahead', {}, aheadMs)] })
    await checkpoints.run()
    expect(await sizes()).toEqual([1])
  })

  test('missing from their file are added on request, and reported at the next start', async () => {
    const directory = join(store.place.dataDir, 'mounted-later')
    const file = join(directory, 'checkpoints')
    const checkpoints = checkpointsTo({ file })
    await write(3)
    const [made] = await checkpoints.make(tenantId)
    const compare = async () => compareWithFile(store.db, file, await rig.keys.published())
    expect(await compare()).toEqual({ lost: [], unpublished: [made] })
    await mkdir(directory)
    expect(await checkpoints.make(tenantId)).toEqual([made])
    expect(await readFile(file, 'utf8')).toBe(`${made?.note}\n`)
    expect(await compare()).toEqual({ lost: [], unpublished: [] })
  })

  test('are created by one of two concurrent daemons', async () => {
    await write(3)
    const file = join(store.place.dataDir, 'checkpoints')
    const both = [checkpointsTo({ file }), checkpointsTo({ file })]
    const [one, two] = await Promise.all(both.map((checkpoints) => checkpoints.make(tenantId)))
    expect(one).toEqual(two)
    expect(new Set((await readFile(file, 'utf8')).split(/(?<=\n)\n(?!—)/))).toEqual(new Set([one?.[0]?.note, '']))
  })

  test('are logged, written to the file and posted; failed posts are repeated with the next', async () => {
    const posted: string[] = []
    let status = 500
    const failed = deferred()
    const receiver = createServer((incoming, response) => {
      const chunks: Buffer[] = []
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
      incoming.on('end', () => {
        posted.push(Buffer.concat(chunks).toString())
        response.writeHead(status).end()
      })
    })
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
    const file = join(store.place.dataDir, 'checkpoints')
    const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/log`
    const error = (details: object) => {
      log.error(details)
      failed.resolve()
    }
    const checkpoints = checkpointsTo({ file, url, log: { ...log, error } })
    const other = await newTenant(store.db)
    await write(2)
    await rig.ledger.commit({ evidence: [draftOf(other, 'jti-other')] })
    const [refused] = await checkpoints.make(tenantId)
    await failed.promise
    expect(posted).toEqual([refused?.note])
    expect(logged).toMatchObject([{ checkpoint: refused?.note }, { error: expect.anything(), waiting: 1 }])
    expect(await readFile(file, 'utf8')).toBe(`${refused?.note}\n`)

    status = 204
    const [accepted] = await checkpoints.make(other)
    await checkpoints.close()
    expect(posted).toEqual([refused?.note, refused?.note, accepted?.note])
    expect(await readFile(file, 'utf8')).toBe(`${refused?.note}\n${accepted?.note}\n`)
    await new Promise((resolve) => receiver.close(resolve))
  })

  test('are found in a file after others that a crash cut at any position', async () => {
    const file = join(store.place.dataDir, 'checkpoints')
    await write(3)
    const [made] = await checkpointsTo().make(tenantId)
    const note = made?.note ?? ''
    await store.db.deleteFrom('evidence_entries').execute()
    for (let cut = 0; cut < note.length; cut += 7) {
      await writeFile(file, `${note.slice(0, cut)}${note}\n${note}\n`)
      const { lost } = await compareWithFile(store.db, file, await rig.keys.published())
      expect([cut, lost.length]).toEqual([cut, 1])
    }
  })

  test('in an unreadable file leave the store unverified, and a comparison can be aborted', async () => {
    const publisher = createCheckpointPublisher({ file: undefined, url: undefined, log })
    const compare = (file: string | undefined) => startComparison({ ...rig, file, publisher, log })
    expect(await compare(undefined).hasFailed()).toBe(false)
    const { dataDir } = store.place
    expect(await compare(dataDir).hasFailed()).toBe(true)
    expect(logged).toMatchObject([{ file: dataDir, error: { code: 'EISDIR' } }])

    const file = join(dataDir, 'checkpoints')
    await write(3)
    await checkpointsTo({ file }).make(tenantId)
    logged.length = 0
    const stopped = compareWithFile(store.db, file, await rig.keys.published(), AbortSignal.abort())
    await expect(stopped).rejects.toThrow('aborted')
    await compare(file).close()
    expect(logged).toEqual([])
  })

  test('in a file reveal that an old or foreign database was restored', async () => {
    const file = join(store.place.dataDir, 'checkpoints')
    const checkpoints = checkpointsTo({ file })
    const compare = async () => (await compareWithFile(store.db, file, await rig.keys.published())).lost
    const saying = (size: number, problem: string) =>
      expect.stringMatching(new RegExp(`^the checkpoint of ${size} entries of test/logs/[0-9a-f]{32}: ${problem}$`))
    expect(await compare()).toEqual([])
    await write(3)
    await checkpoints.make(tenantId)
    await write(3)
    await checkpoints.make(tenantId)
    // A note that a crash cut off has no effect.
    await appendFile(file, 'half of a no')
    expect(await compare()).toEqual([])

    const [second, third] = await store.db
      .selectFrom('evidence_entries')
      .selectAll()
      .where('seq', 'in', [1, 2])
      .execute()
    await setHash(`${second?.entry_hash}${third?.entry_hash}`, 1)
    await store.db.deleteFrom('evidence_entries').where('seq', '=', 2).execute()
    expect(await compare()).toMatchObject([
      { cause: 'entries_missing', detail: saying(3, 'some of the entries 0 to 2 are missing from the store') },
    ])
    await setHash(second?.entry_hash ?? '', 1)
    if (third) await store.db.insertInto('evidence_entries').values(third).execute()
    expect(await compare()).toEqual([])

    await store.db.deleteFrom('evidence_entries').where('seq', '>=', 4).execute()
    expect(await compare()).toMatchObject([
      { cause: 'entries_missing', detail: saying(6, 'the store contains only 4 entries of this log') },
    ])
    expect(problemsOf(await rig.verify(tenantId))).toMatchObject([{ seq: 4, problem: expect.stringContaining('6') }])
    await store.db.deleteFrom('evidence_checkpoints').where('tree_size', '=', 6).execute()
    expect(problemsOf(await rig.verify(tenantId))).toEqual([])

    await rig.ledger.close()
    const restored = await openChainRig(store.db, { clock, daemonId: 'abcdefabcdef' })
    for (const id of ['x', 'y']) await restored.ledger.commit({ evidence: [draftOf(tenantId, id)] })
    await restored.ledger.close()
    const [rewritten] = await compare()
    expect(rewritten).toMatchObject({
      cause: 'entries_changed',
      detail: saying(6, 'the entries in the store differ from the checkpoint'),
    })
    // It is still reported after the log has outgrown the loss.
    const grown = await openChainRig(store.db, { clock, daemonId: 'abcdefabcdef' })
    await grown.ledger.commit({ evidence: [draftOf(tenantId, 'z')] })
    await grown.ledger.close()
    // The daemon knows that it has signed six entries, and signs no fork.
    expect(await checkpoints.make(tenantId)).toEqual([])
    expect(await compare()).toEqual([rewritten])
    await store.db.deleteFrom('evidence_entries').where('seq', '=', 1).execute()
    expect(await compare()).toMatchObject([
      { cause: 'entries_missing', detail: saying(3, 'some of the entries 0 to 2 are missing from the store') },
    ])
    await store.db.deleteFrom('evidence_entries').execute()
    expect(await compare()).toMatchObject([
      { cause: 'entries_missing', detail: saying(3, 'the store contains only 0 entries of this log') },
    ])
    await store.db.deleteFrom('evidence_checkpoints').execute()
    expect(await compare()).toMatchObject([
      { cause: 'log_missing', detail: saying(3, 'the store does not contain this log') },
    ])
  })
})
