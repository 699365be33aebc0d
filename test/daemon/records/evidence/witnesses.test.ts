import { Registry } from 'prom-client'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createCheckpoints } from '../../../../src/daemon/records/evidence/checkpoints.ts'
import { findCosignedOver, withCosignatures } from '../../../../src/daemon/records/evidence/cosignatures.ts'
import {
  acknowledgeLoss,
  createLosses,
  listLosses,
  lossOfChain,
} from '../../../../src/daemon/records/evidence/losses.ts'
import { findCheckpoint } from '../../../../src/daemon/records/evidence/store.ts'
import { WITNESS_CALL_MS } from '../../../../src/daemon/records/evidence/witness-call.ts'
import { createWitnessMetrics } from '../../../../src/daemon/records/evidence/witness-metrics.ts'
import {
  createWitnesses,
  type WitnessConfig,
  type Witnesses,
} from '../../../../src/daemon/records/evidence/witnesses.ts'
import { ALWAYS } from '../../../../src/shared/evidence/cosignature.ts'
import { cosignedNoteOf, parseWitnessPolicy } from '../../../../src/shared/evidence/witness-policy.ts'
import { deferred } from '../../../deferred.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { startWitness, type TestWitness, type WitnessFault } from '../../../witness.ts'
import { type ChainRig, draftOf, newTenant, openChainRig } from './chain-rig.ts'

const CHAIN = 'requests-abcdefabcdef'

describeEachEngine('witnesses', (engine) => {
  const store = storeForEach(engine)
  let clock: ReturnType<typeof createFakeClock>
  let rig: ChainRig
  let tenantId: string
  let witness: TestWitness
  let registry: Registry
  let logged: [object, string][]
  let opened: Witnesses[]

  beforeEach(async () => {
    clock = createFakeClock()
    rig = await openChainRig(store.db, { clock, daemonId: 'abcdefabcdef' })
    tenantId = await newTenant(store.db)
    witness = await startWitness()
    witness.trusts = rig.keys.published
    witness.nowMs = clock.now
    registry = new Registry()
    logged = []
    opened = []
  })
  afterEach(async () => {
    await Promise.all(opened.map((one) => one.close()))
    await rig.ledger.close()
    await witness.close()
  })

  function witnessesWith(changed: Partial<WitnessConfig> = {}): Witnesses {
    registry = new Registry()
    const log = {
      info: () => {},
      error: (details: object, message: string) => void logged.push([details, message]),
    }
    const made = createWitnesses({
      ...{ db: store.db, clock, log, keys: rig.keys, losses: rig.losses },
      witnesses: [{ name: 'w1', url: witness.url, key: witness.vkey, window: ALWAYS, ...changed }],
      metrics: createWitnessMetrics([registry]),
    })
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
  /** Writes entries and creates a checkpoint of them. Returns its size. */
  async function checkpoint(entries: number, witnesses?: Witnesses): Promise<number> {
    await write(entries)
    const publish = async (row: Parameters<Witnesses['offer']>[0]) => witnesses?.offer(row)
    const publisher = { publish, close: async () => {} }
    const log = { error: () => expect.unreachable() }
    const checkpoints = createCheckpoints({
      ...{ db: store.db, clock, keys: rig.keys, publisher, log },
      losses: createLosses({ db: store.db, clock, log }),
    })
    const [made] = await checkpoints.make(tenantId)
    await checkpoints.close()
    return made?.tree_size ?? 0
  }
  const cosigned = async () =>
    (await store.db.selectFrom('evidence_cosignatures').select('tree_size').orderBy('tree_size').execute()).map(
      ({ tree_size }) => tree_size,
    )
  const policyOf = (...witnesses: TestWitness[]) =>
    parseWitnessPolicy(
      `${witnesses.map(({ vkey }, at) => `witness w${at} ${vkey}\n`).join('')}group all all ${witnesses.map((_, at) => `w${at}`).join(' ')}\nquorum all\n`,
    )
  const noteOf = async (size: number) => {
    const row = await findCheckpoint(store.db, tenantId, CHAIN, size)
    return (await withCosignatures(store.db, tenantId, row ? [row] : []))[0]?.note ?? ''
  }
  const verified = async (size: number) =>
    cosignedNoteOf(await noteOf(size), {
      keys: await rig.keys.published(),
      policy: policyOf(witness),
      nowMs: clock.now(),
    })
  const waiting = async () => {
    const { values = [] } = (await registry.getSingleMetric('aigw_evidence_cosignatures_waiting')?.get()) ?? {}
    return values[0]?.value ?? 0
  }
  /** The chain and the successor of each contradiction. */
  const contradictions = async () =>
    (await listLosses(store.db)).flatMap(({ cause, chain, successor }) =>
      cause === 'witness_contradicts' ? [[chain, successor]] : [],
    )
  const outcomes = async () => {
    const { values = [] } = (await registry.getSingleMetric('aigw_evidence_cosignatures_total')?.get()) ?? {}
    return values.map(({ labels, value }) => [labels.outcome, value])
  }

  test('cosign every checkpoint, each with a proof of consistency with the one before', async () => {
    const witnesses = witnessesWith()
    for (const [entries, size] of [
      [3, 3],
      [4, 7],
      [1, 8],
    ]) {
      expect(await checkpoint(entries ?? 0, witnesses)).toBe(size)
      await witnesses.run()
    }
    expect(await cosigned()).toEqual([3, 7, 8])
    expect(witness.statuses).toEqual([200, 200, 200])
    expect(witness.requests.map((body) => body.split('\n')[0])).toEqual(['old 0', 'old 3', 'old 7'])
    expect(await verified(7)).toMatchObject({ checkpoint: { size: 7 }, cosigners: ['w0'] })
    expect((await findCosignedOver(store.db, tenantId, CHAIN, 5))?.note).toBe(await noteOf(7))
    expect(await outcomes()).toEqual([['cosigned', 3]])
    expect(logged).toEqual([])
  })

  test('that know another size get a proof from that size', async () => {
    await checkpoint(3, witnessesWith())
    await opened[0]?.run()
    // The response of the witness was lost.
    await store.db.deleteFrom('evidence_cosignatures').execute()
    const witnesses = witnessesWith()
    await checkpoint(2, witnesses)
    await witnesses.run()
    expect(witness.statuses).toEqual([200, 409, 200])
    expect(witness.requests.map((body) => body.split('\n')[0])).toEqual(['old 0', 'old 0', 'old 3'])
    expect(await cosigned()).toEqual([5])
    // The same for a checkpoint that the witness has cosigned already.
    await store.db.deleteFrom('evidence_cosignatures').execute()
    await witnessesWith().run()
    expect(witness.statuses.slice(3)).toEqual([409, 200])
    expect(await cosigned()).toEqual([5])
  })

  test('find after a restart which checkpoints were waiting', async () => {
    await checkpoint(3)
    await witnessesWith().run()
    expect(await cosigned()).toEqual([3])
  })

  test.each([
    ['a fork of the same size', 5, 5, 409],
    ['a larger fork', 5, 6, 422],
    ['a rollback', 5, 3, 409],
  ])('refuse %s, and the daemon reports it', async (_, before, after, status) => {
    await checkpoint(before, witnessesWith())
    await opened[0]?.run()
    for (const table of [
      'evidence_entries',
      'evidence_checkpoints',
      'evidence_cosignatures',
      'evidence_nodes',
    ] as const)
      await store.db.deleteFrom(table).execute()
    await rig.ledger.close()
    rig = await openChainRig(store.db, { clock, daemonId: 'abcdefabcdef' })
    const witnesses = witnessesWith()
    expect(await checkpoint(after, witnesses)).toBe(after)
    await witnesses.run()
    expect(witness.statuses.at(-1)).toBe(status)
    expect(await cosigned()).toEqual([])
    expect(await contradictions()).toEqual([[CHAIN, null]])
    expect(logged.at(-1)?.[1]).toBe('a witness has cosigned a checkpoint that contradicts the store')
    expect(await outcomes()).toEqual([['contradicted', 1]])
    expect(witness.seen.values().next().value?.size).toBe(before)
  })

  test('whose contradiction is acknowledged get no further request for the log, which is closed', async () => {
    await checkpoint(5, witnessesWith())
    await opened[0]?.run()
    witness.seen.set(witness.seen.keys().next().value!, { size: 9, root: '' })
    const witnesses = witnessesWith()
    await checkpoint(1, witnesses)
    await witnesses.run()
    const [loss] = await listLosses(store.db)
    expect(loss).toMatchObject({ cause: 'witness_contradicts', chain: CHAIN, successor: null, acknowledged_at: null })
    // Another party cannot close a log.
    expect([...(await rig.losses.successors())]).toEqual([])
    clock.advance(3_600_000)
    await witnesses.run()
    expect(await listLosses(store.db)).toEqual([loss])
    await store.db.transaction().execute((tx) => acknowledgeLoss(tx, loss?.id ?? '', 'now'))
    rig.losses.forget()
    const successors = await rig.losses.successors()
    expect([...successors.keys()]).toEqual([CHAIN])
    const asked = witness.requests.length
    clock.advance(3_600_000)
    await witnesses.run()
    expect([witness.requests.length, await waiting()]).toEqual([asked, 0])
    await write(1)
    const chains = await store.db.selectFrom('evidence_entries').select('chain').distinct().orderBy('chain').execute()
    expect(chains.map(({ chain }) => chain)).toEqual([CHAIN, successors.get(CHAIN)])
  })

  test('that have cosigned a larger checkpoint of the store get this checkpoint, and the smaller one is not counted', async () => {
    await checkpoint(5, witnessesWith())
    await opened[0]?.run()
    const [origin = ''] = witness.seen.keys()
    const smaller = await checkpoint(1)
    await checkpoint(1)
    const [larger] = await store.db.selectFrom('evidence_checkpoints').selectAll().where('tree_size', '=', 7).execute()
    // Another daemon has sent the larger checkpoint.
    witness.seen.set(origin, { size: 7, root: Buffer.from(larger?.root ?? '', 'hex').toString('base64') })
    const witnesses = witnessesWith()
    witnesses.offer({ tenant_id: tenantId, chain: CHAIN, tree_size: smaller })
    await witnesses.run()
    expect([await cosigned(), await outcomes(), await contradictions()]).toEqual([[5, 7], [['cosigned', 1]], []])
    // A fork of the same size as the larger checkpoint.
    const next = await checkpoint(1)
    await checkpoint(1)
    witness.seen.set(origin, { size: 9, root: Buffer.alloc(32).toString('base64') })
    const others = witnessesWith()
    others.offer({ tenant_id: tenantId, chain: CHAIN, tree_size: next })
    await others.run()
    expect([await outcomes(), await contradictions()]).toEqual([[['contradicted', 1]], [[CHAIN, null]]])
  })

  test.each<[string, () => unknown, boolean]>([
    ['whose key it refuses', () => Object.assign(witness, { trusts: async () => [] }), false],
    ['that contradicts it', () => witness.seen.set(witness.seen.keys().next().value!, { size: 9, root: '' }), true],
    ['whose entries are missing', () => store.db.deleteFrom('evidence_entries').execute(), false],
  ])('get no request for a closed log %s, also not after a restart', async (_, attack, contradicts) => {
    await checkpoint(3)
    await witnessesWith().run()
    await checkpoint(2)
    await attack()
    const witnesses = witnessesWith()
    await witnesses.run()
    expect(await cosigned()).toEqual([3])
    expect(await contradictions()).toEqual(contradicts ? [[CHAIN, null]] : [])
    expect(await waiting()).toBe(1)
    const [asked, errors] = [witness.requests.length, logged.length]
    const loss = lossOfChain(tenantId, CHAIN, 'entries_missing', 'the chain is shorter than its checkpoint')
    await rig.losses.report([loss])
    clock.advance(3_600_000)
    await witnesses.run()
    expect([await contradictions(), await waiting()]).toEqual([[], 0])
    // A checkpoint that is offered again, and the checkpoints that are found after a restart.
    witnesses.offer({ tenant_id: tenantId, chain: CHAIN, tree_size: 5 })
    await witnesses.run()
    const restarted = witnessesWith()
    await restarted.run()
    expect([witness.requests.length, logged.length, await waiting()]).toEqual([asked, errors, 0])
    // The log that continues the closed log is cosigned.
    Object.assign(witness, { trusts: rig.keys.published })
    expect(await checkpoint(1, restarted)).toBe(1)
    await restarted.run()
    expect(await cosigned()).toEqual([1, 3])
  })

  test('that do not respond are asked again after a growing delay', async () => {
    const hanging = deferred()
    witness.fault = () => {
      hanging.resolve()
      return 'hang'
    }
    const witnesses = witnessesWith()
    await checkpoint(1, witnesses)
    await hanging.promise
    clock.advance(WITNESS_CALL_MS)
    await witnesses.run()
    witness.fault = () => ({ status: 503 })
    clock.advance(29_999)
    await witnesses.run()
    expect(witness.requests).toHaveLength(1)
    clock.advance(1)
    await witnesses.run()
    expect(witness.requests).toHaveLength(2)
    witness.fault = () => undefined
    clock.advance(59_999)
    await witnesses.run()
    expect(witness.requests).toHaveLength(2)
    clock.advance(1)
    await witnesses.run()
    expect(await cosigned()).toEqual([1])
    expect(await outcomes()).toEqual([
      ['failed', 2],
      ['cosigned', 1],
    ])
    expect(clock.pending).toBe(0)
  })

  test('that do not know the log are reported with the key to register', async () => {
    witness.trusts = async () => []
    const witnesses = witnessesWith()
    await checkpoint(1, witnesses)
    await witnesses.run()
    expect(logged).toEqual([
      [
        expect.objectContaining({ witness: 'w1', status: 404, log_key: expect.stringMatching(/^test\+[0-9a-f]{8}\+/) }),
        'a witness refuses a log: register the origin and the key of the log there',
      ],
    ])
    expect([await outcomes(), await contradictions()]).toEqual([[['refused', 1]], []])
  })

  test.each<[string, { fault?: WitnessFault; laterMs?: number; untilMs?: number }]>([
    ['that is too long', { fault: { status: 200, body: 'x'.repeat(20_000) } }],
    ['that has no signature lines', { fault: { status: 200, body: 'thanks\n' } }],
    ['that is a redirect', { fault: { status: 302 } }],
    ['with a time in the future', { laterMs: 600_000 }],
    ['outside of the validity of its key', { untilMs: 1 }],
  ])('may not answer with a response %s', async (_, { fault, laterMs = 0, untilMs }) => {
    witness.fault = () => fault
    witness.nowMs = () => clock.now() + laterMs
    const window = untilMs === undefined ? ALWAYS : { fromMs: 0, untilMs }
    const witnesses = witnessesWith({ key: witness.vkey, window })
    await checkpoint(1, witnesses)
    await witnesses.run()
    expect(await cosigned()).toEqual([])
    expect(logged.at(-1)?.[1]).toBe('a checkpoint could not be cosigned; it is retried')
  })

  test('may not answer with the cosignature of another key', async () => {
    const other = await startWitness('witness.example.com/w2')
    const witnesses = witnessesWith({ key: other.vkey, window: ALWAYS })
    await checkpoint(1, witnesses)
    await witnesses.run()
    expect(await cosigned()).toEqual([])
    await other.close()
  })

  test('get a checkpoint of a retired key with a signature of the current key', async () => {
    await checkpoint(2)
    clock.advance(1_000)
    await store.db.transaction().execute((tx) => rig.keys.rotate(tx))
    rig.keys.forget()
    clock.advance(3_600_000)
    await witnessesWith().run()
    expect(await cosigned()).toEqual([2])
    expect((await noteOf(2)).split('\n').filter((line) => line.startsWith('— test '))).toHaveLength(2)
    expect(await verified(2)).toMatchObject({ cosigners: ['w0'] })
    // Without the second signature, the time of the cosignature is outside of the window of the first key.
    await store.db
      .updateTable('evidence_cosignatures')
      .set({ log_line: `${(await noteOf(2)).split('\n')[4]}\n` })
      .execute()
    await expect(verified(2)).rejects.toThrow(
      'it lacks cosignatures: 1 of w0 must cosign; valid ones are of no witness',
    )
  })

  test('are asked in parallel, and one that hangs does not delay the other or a shutdown', async () => {
    const slow = await startWitness('witness.example.com/w2')
    const hanging = deferred()
    slow.fault = () => {
      hanging.resolve()
      return 'hang'
    }
    const slowly = witnessesWith({ name: 'w2', url: slow.url, key: slow.vkey, window: ALWAYS })
    const witnesses = witnessesWith()
    const size = await checkpoint(1)
    for (const one of [slowly, witnesses]) one.offer({ tenant_id: tenantId, chain: CHAIN, tree_size: size })
    await witnesses.run()
    expect(await cosigned()).toEqual([1])
    await hanging.promise
    await slowly.close()
    await slow.close()
  })
})
