import { appendFile, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { compareWithFile } from '../../../src/daemon/evidence/checkpoint-file.ts'
import { type Checkpoints, createCheckpoints } from '../../../src/daemon/evidence/checkpoints.ts'
import { frontierOf, proveConsistency, proveInclusion, rootOfChain } from '../../../src/daemon/evidence/proofs.ts'
import { createSecondPlaces, type SecondPlaceOptions } from '../../../src/daemon/evidence/second-places.ts'
import { findCheckpointOver, listChains, readChain } from '../../../src/daemon/evidence/store.ts'
import { leafHash, rootOfInclusion, treeRoot, verifyConsistency } from '../../../src/shared/evidence/merkle.ts'
import { verifyNote } from '../../../src/shared/evidence/note.ts'
import { deferred } from '../../deferred.ts'
import { describeEachEngine, type TestStore } from '../../engines.ts'
import { createFakeClock } from '../../fake-clock.ts'
import { type ChainRig, draftOf, newTenant, openChainRig, problemsOf } from './chain-rig.ts'

const HOUR_MS = 3_600_000

describeEachEngine('checkpoints', (engine) => {
  let store: TestStore
  let rig: ChainRig
  let clock: ReturnType<typeof createFakeClock>
  let tenantId: string
  const logged: object[] = []
  let opened: Checkpoints[]

  beforeEach(async () => {
    store = await engine.open()
    clock = createFakeClock()
    rig = await openChainRig(store.db, { clock, daemonId: 'abcdefabcdef' })
    tenantId = await newTenant(store.db)
    logged.length = 0
    opened = []
  })
  afterEach(async () => {
    for (const checkpoints of opened) await checkpoints.close()
    await rig.ledger.close()
    await store.close()
  })

  const chain = 'requests-abcdefabcdef'
  const log = {
    info: (details: object) => void logged.push(details),
    error: (details: object) => void logged.push(details),
  }
  function checkpointsTo(places: Partial<SecondPlaceOptions> = {}): Checkpoints {
    const second = createSecondPlaces({ file: undefined, url: undefined, log, ...places })
    const made = createCheckpoints({ db: store.db, clock, log, keys: rig.keys, places: second })
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
      leafHash(entry_hash),
    )
  const sizes = async () =>
    (await store.db.selectFrom('evidence_checkpoints').select('tree_size').orderBy('tree_size').execute()).map(
      ({ tree_size }) => tree_size,
    )

  test('are made over all there is, signed, and only once for the same entries', async () => {
    const checkpoints = checkpointsTo()
    expect(await checkpoints.make(tenantId)).toEqual([])
    await write(5)
    const [made, ...others] = await checkpoints.make(tenantId)
    expect([made?.tree_size, made?.chain, others]).toEqual([5, chain, []])
    expect(made?.root).toBe(treeRoot(await leaves()).toString('hex'))
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

  test('prove with few rows what is in the chain, and that it only grew, with nodes and without', async () => {
    const checkpoints = checkpointsTo()
    for (const count of [300, 500, 2]) {
      await write(count)
      await checkpoints.make(tenantId)
    }
    const all = await leaves()
    const { db } = store
    async function proveAll(): Promise<void> {
      for (const size of [1, 2, 255, 256, 257, 512, 700, 802]) {
        const root = treeRoot(all.slice(0, size))
        expect(await rootOfChain(db, tenantId, chain, size)).toEqual(root)
        expect((await frontierOf(db, tenantId, chain, size)).root()).toEqual(root)
        for (const index of new Set([0, size >> 1, size - 1])) {
          const path = await proveInclusion(db, tenantId, chain, index, size)
          expect(rootOfInclusion(all[index] as Buffer, index, size, path)).toEqual(root)
        }
        const path = await proveConsistency(db, tenantId, chain, size, 802)
        const grown = { oldSize: size, oldRoot: root, newSize: 802, newRoot: treeRoot(all), path }
        expect(verifyConsistency(grown)).toBe(true)
      }
    }
    expect(
      await db.selectFrom('evidence_nodes').select(['level', 'node_index']).orderBy('node_index').execute(),
    ).toEqual([0, 1, 2].map((node_index) => ({ level: 1, node_index })))
    await proveAll()
    await db.deleteFrom('evidence_nodes').execute()
    await proveAll()
    await expect(rootOfChain(db, tenantId, chain, 803)).rejects.toThrow(RangeError)
  })

  test('are made by one of two daemons that get to it together', async () => {
    await write(3)
    const file = join(store.place.dataDir, 'checkpoints')
    const both = [checkpointsTo({ file }), checkpointsTo({ file })]
    const [one, two] = await Promise.all(both.map((checkpoints) => checkpoints.make(tenantId)))
    expect(one).toEqual(two)
    expect((await readFile(file, 'utf8')).split('\n\n')).toHaveLength(3)
  })

  test('go to the log, the file and the address; what could not be posted is posted with the next', async () => {
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

  test('in a file tell that an old database was put back, or another one', async () => {
    const file = join(store.place.dataDir, 'checkpoints')
    const checkpoints = checkpointsTo({ file })
    const compare = async () => compareWithFile(store.db, file, await rig.keys.published())
    expect(await compare()).toEqual([])
    await write(3)
    await checkpoints.make(tenantId)
    await write(3)
    await checkpoints.make(tenantId)
    // What a crash has left of a note says nothing.
    await appendFile(file, 'half of a no')
    expect(await compare()).toEqual([])

    await store.db.deleteFrom('evidence_entries').where('seq', '>=', 4).execute()
    expect(await compare()).toMatchObject([{ size: 6, problem: 'the store has only 4 entries of it' }])
    expect(problemsOf(await rig.verify(tenantId))).toMatchObject([{ seq: 4, problem: expect.stringContaining('6') }])
    await store.db.deleteFrom('evidence_checkpoints').where('tree_size', '=', 6).execute()
    expect(problemsOf(await rig.verify(tenantId))).toEqual([])

    await rig.ledger.close()
    const restored = await openChainRig(store.db, { clock, daemonId: 'abcdefabcdef' })
    for (const id of ['x', 'y']) await restored.ledger.commit({ evidence: [draftOf(tenantId, id)] })
    await restored.ledger.close()
    expect(await compare()).toMatchObject([{ size: 6, problem: 'the store has other entries' }])
    await store.db.deleteFrom('evidence_entries').execute()
    expect(await compare()).toMatchObject([{ size: 6, problem: 'the store has no such log' }])
  })
})
