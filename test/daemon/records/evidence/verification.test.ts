import { type Kysely, sql } from 'kysely'
import { beforeEach, expect, test } from 'vitest'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import type { EvidenceEntryRow } from '../../../../src/daemon/platform/db/tables.ts'
import { appendChanges } from '../../../../src/daemon/records/evidence/change-entry.ts'
import { createCheckpointPublisher } from '../../../../src/daemon/records/evidence/checkpoint-publisher.ts'
import { createCheckpoints } from '../../../../src/daemon/records/evidence/checkpoints.ts'
import { verifyTenant } from '../../../../src/daemon/records/evidence/verification.ts'
import type { PublishedKey } from '../../../../src/shared/evidence/keys.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { draftOf, newTenant, openChainRig, problemsOf } from './chain-rig.ts'

/**
 * SQLite: 250 mutations of each of the eight kinds on 21 rows. 10,000 mutations in memory test the check itself
 * (test/shared/evidence/chain-check.test.ts); these tests cover reading from the store.
 */
const MUTATIONS = { sqlite: 2_000, postgres: 200 }

/** Pseudo-random numbers, the same in every run. */
function createRandom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const COLUMNS = ['id', 'created_at', 'payload', 'payload_hash', 'entry_hash', 'commit_id', 'leaf_index'] as const

class TakenBack extends Error {}

describeEachEngine('the log of a tenant', (engine) => {
  const store = storeForEach(engine)
  let tenantId: string
  let rows: EvidenceEntryRow[]
  let keys: PublishedKey[]

  beforeEach(async () => {
    const rig = await openChainRig(store.db, { daemonId: 'abcdefabcdef' })
    tenantId = await newTenant(store.db)
    const other = await newTenant(store.db)
    const log = { info: () => {}, error: () => {} }
    const publisher = createCheckpointPublisher({ file: undefined, url: undefined, log })
    const checkpoints = createCheckpoints({ ...rig, clock: systemClock, log, publisher })
    for (let round = 0; round < 3; round++) {
      const ids = Array.from({ length: 8 }, (_, at) => `jti-${round}-${at}`)
      await Promise.all(
        ids.map((id, at) => rig.ledger.commit({ evidence: [draftOf(at % 4 === 3 ? other : tenantId, id)] })),
      )
      const change = draftOf(tenantId, `change-${round}`, { compliance_category: 'authorization' })
      const chains = { keys: rig.keys, clock: systemClock, lockedTenantId: other }
      await store.db.transaction().execute((tx) => appendChanges(tx, [change], chains))
      await checkpoints.make(tenantId)
    }
    await checkpoints.close()
    await rig.ledger.close()
    keys = await rig.keys.published()
    rows = await entriesOf(store.db)
  })

  const entriesOf = (db: Db) =>
    db
      .selectFrom('evidence_entries')
      .selectAll()
      .where('tenant_id', '=', tenantId)
      .orderBy('chain')
      .orderBy('seq')
      .execute()

  /** The findings after `mutate` has changed the store, which is then restored. */
  async function foundAfter(mutate: (tx: Db) => Promise<unknown>) {
    let found: ReturnType<typeof problemsOf> = []
    const run = store.db.transaction().execute(async (tx) => {
      await mutate(tx)
      found = problemsOf(await verifyTenant(tx, tenantId, keys))
      throw new TakenBack()
    })
    await expect(run).rejects.toThrow(TakenBack)
    return found
  }
  const at = ({ chain, seq }: EvidenceEntryRow) => [tenantId, chain, seq] as const
  const update = (tx: Db, row: EvidenceEntryRow, values: Partial<EvidenceEntryRow>) =>
    tx
      .updateTable('evidence_entries')
      .set(values)
      .where(({ eb, refTuple, tuple }) => eb(refTuple('tenant_id', 'chain', 'seq'), '=', tuple(...at(row))))
      .execute()
  const remove = (tx: Db, row: EvidenceEntryRow) =>
    tx
      .deleteFrom('evidence_entries')
      .where(({ eb, refTuple, tuple }) => eb(refTuple('tenant_id', 'chain', 'seq'), '=', tuple(...at(row))))
      .execute()

  test('that is unchanged is valid', async () => {
    expect(await verifyTenant(store.db, tenantId, keys)).toMatchObject([
      { chain: 'changes', ok: true, size: 3, checkpointsHeld: 3 },
      { chain: 'requests-abcdefabcdef', ok: true, size: 18, checkpointsHeld: 3 },
    ])
  })

  test('with any change is invalid, and the first position is reported', async () => {
    const random = createRandom(20_260_101)
    const one = () => rows[random(rows.length)] as EvidenceEntryRow
    const inChain = (chain: string) => rows.filter((row) => row.chain === chain)
    const kinds = {
      async 'a value with another letter'(tx: Db) {
        const row = one()
        const column = COLUMNS[random(COLUMNS.length)] as (typeof COLUMNS)[number]
        const value = row[column]
        const changed = typeof value === 'number' ? value + 1 + random(3) : otherLetter(String(value), random)
        await update(tx, row, { [column]: changed })
        return row
      },
      async 'a row that is gone'(tx: Db) {
        const row = one()
        await remove(tx, row)
        return row
      },
      async 'two rows in each other’s place'(tx: Db) {
        const [first, second] = twoOf(inChain(one().chain), random)
        const { seq: _, chain: __, tenant_id: ___, id: ____, ...content } = second
        const { seq: s, chain: c, tenant_id: t, id: i, ...former } = first
        await update(tx, second, { ...former, id: 'for a moment' })
        await update(tx, first, { ...content, id: second.id })
        await update(tx, second, { id: i })
        return first
      },
      async 'two payloads in each other’s place'(tx: Db) {
        const [first, second] = twoOf(inChain(one().chain), random)
        await update(tx, first, { payload: second.payload, payload_hash: second.payload_hash })
        await update(tx, second, { payload: first.payload, payload_hash: first.payload_hash })
        return first
      },
      async 'a row that was put in at the end'(tx: Db) {
        const last = inChain(one().chain).at(-1) as EvidenceEntryRow
        const added = { ...last, seq: last.seq + 1, id: 'added' }
        await tx.insertInto('evidence_entries').values(added).execute()
        return added
      },
      async 'a chain that was cut'(tx: Db) {
        const { chain, seq } = one()
        await tx
          .deleteFrom('evidence_entries')
          .where('tenant_id', '=', tenantId)
          .where('chain', '=', chain)
          .where('seq', '>=', seq)
          .execute()
        return { chain, seq }
      },
      async 'a commit that is gone'(tx: Db) {
        const { commit_id, chain } = one()
        await tx.deleteFrom('evidence_commits').where('id', '=', commit_id).execute()
        return inChain(chain).find((row) => row.commit_id === commit_id) as EvidenceEntryRow
      },
      async 'a commit with another letter'(tx: Db) {
        const { commit_id, chain } = one()
        const column = (['kid', 'signer', 'root', 'leaves', 'signature'] as const)[random(5)] as 'root'
        const commit = await tx
          .selectFrom('evidence_commits')
          .select(column)
          .where('id', '=', commit_id)
          .executeTakeFirstOrThrow()
        const changed = { [column]: otherLetter(commit[column], random) }
        await tx.updateTable('evidence_commits').set(changed).where('id', '=', commit_id).execute()
        return inChain(chain).find((row) => row.commit_id === commit_id) as EvidenceEntryRow
      },
    }
    const names = Object.keys(kinds) as (keyof typeof kinds)[]
    for (let mutation = 0; mutation < MUTATIONS[engine.name]; mutation++) {
      const name = names[mutation % names.length] as keyof typeof kinds
      let first: { chain: string; seq: number } | undefined
      const found = await foundAfter(async (tx) => {
        first = await kinds[name](tx)
      })
      expect([mutation, name, ...found]).toEqual([mutation, name, expect.objectContaining(place(first))])
    }
  })

  test('with expunged request payloads is valid; a change without its payload is not', async () => {
    const requests = rows.filter(({ chain }) => chain !== 'changes')
    const changes = rows.filter(({ chain }) => chain === 'changes')
    expect(await foundAfter((tx) => update(tx, requests[3] as EvidenceEntryRow, { payload: null }))).toEqual([])
    expect(await foundAfter((tx) => update(tx, changes[1] as EvidenceEntryRow, { payload: null }))).toMatchObject([
      { chain: 'changes', seq: 1 },
    ])
  })

  test('whose checkpoint row differs from its note, or has the note of another log, is invalid', async () => {
    const at = { chain: 'changes', tree_size: 2 }
    const others = await store.db
      .selectFrom('evidence_checkpoints')
      .select(['chain', 'tree_size', 'note'])
      .where('tenant_id', '=', tenantId)
      .execute()
    const noteOf = (chain: string, size: number) =>
      others.find((row) => row.chain === chain && row.tree_size === size)?.note ?? ''
    const changes = [
      { root: 'ab'.repeat(32) },
      { kid: 'another' },
      { note: noteOf('changes', 1) },
      { note: noteOf('requests-abcdefabcdef', 12) },
    ]
    for (const change of changes) {
      const found = await foundAfter((tx) =>
        tx
          .updateTable('evidence_checkpoints')
          .set(change)
          .where('tenant_id', '=', tenantId)
          .where('chain', '=', at.chain)
          .where('tree_size', '=', at.tree_size)
          .execute(),
      )
      expect(found).toMatchObject([{ chain: 'changes', seq: 2, problem: expect.stringContaining('checkpoint of 2') }])
    }
  })

  test('that grows, gets checkpoints and a new key during the check is valid', async () => {
    const rig = await openChainRig(store.db, { daemonId: 'abcdefabcdef' })
    const log = { info: () => {}, error: () => {} }
    const publisher = createCheckpointPublisher({ file: undefined, url: undefined, log })
    const checkpoints = createCheckpoints({ ...rig, clock: systemClock, log, publisher })
    let walks = 0
    // A store that runs a callback before each statement of the check.
    const busy = store.db.withPlugin({
      transformQuery: ({ node }) => node,
      transformResult: async ({ result }) => {
        walks += 1
        if (walks <= 12) {
          if (walks % 3 === 0) {
            await store.db.transaction().execute((tx) => rig.keys.rotate(tx))
            rig.keys.forget()
          }
          await rig.ledger.commit({ evidence: [draftOf(tenantId, `jti-busy-${walks}`)] })
          const chains = { keys: rig.keys, clock: systemClock, lockedTenantId: tenantId }
          const change = draftOf(tenantId, `change-busy-${walks}`, { compliance_category: 'authorization' })
          await store.db.transaction().execute((tx) => appendChanges(tx, [change], chains))
          await checkpoints.make(tenantId)
        }
        return result
      },
    })
    const checked = await verifyTenant(busy, tenantId, keys, rig.keys.published)
    expect(problemsOf(checked)).toEqual([])
    expect(walks).toBeGreaterThan(4)
    await checkpoints.close()
    await rig.ledger.close()
  })

  test('with a changed checkpoint is invalid', async () => {
    const change = (tx: Kysely<Record<string, never>> | Db, text: string) =>
      sql`update evidence_checkpoints set note = replace(note, ${text}, 'x') where tree_size = 2`.execute(tx)
    expect(await foundAfter((tx) => change(tx, 'test'))).toMatchObject([{ chain: 'changes', seq: 2 }])
  })
})

const place = (first: { chain: string; seq: number } | undefined) => ({ chain: first?.chain, seq: first?.seq })

function twoOf(rows: readonly EvidenceEntryRow[], random: (below: number) => number) {
  const first = random(rows.length - 1)
  const second = first + 1 + random(rows.length - 1 - first)
  return [rows[first], rows[second]] as [EvidenceEntryRow, EvidenceEntryRow]
}

function otherLetter(text: string, random: (below: number) => number): string {
  const position = random(text.length)
  const letter = text[position] === 'a' ? 'b' : 'a'
  return text.slice(0, position) + letter + text.slice(position + 1)
}
