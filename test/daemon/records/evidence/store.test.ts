import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  findCommit,
  findEntry,
  findPublicEntry,
  listChains,
  measureChains,
} from '../../../../src/daemon/records/evidence/store.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { queryPlans } from '../../../query-plan.ts'
import { type ChainRig, newTenant, openChainRig } from './chain-rig.ts'

const IDS = ['chat', 'denied', 'change']

describeEachEngine('entries of the log', (engine) => {
  const store = storeForEach(engine)
  let rig: ChainRig
  let tenantId: string
  beforeEach(async () => {
    rig = await openChainRig(store.db, { daemonId: 'abcdefabcdef' })
    tenantId = await newTenant(store.db)
    for (const [at, id] of IDS.entries()) {
      const createdAtMs = Date.UTC(2026, 0, 1 + at)
      await rig.ledger.commit({ evidence: [{ id, tenantId, createdAtMs, payload: '{}' }] })
    }
  })
  afterEach(() => rig.ledger.close())

  test('of a tenant are invisible to others, except the hashes of an entry whose id is known', async () => {
    const other = await newTenant(store.db)
    expect(await findEntry(store.db, other, 'chat')).toBeUndefined()
    expect(await listChains(store.db, other)).toEqual([])
    const [first, second] = [await findEntry(store.db, tenantId, 'chat'), await findPublicEntry(store.db, 'denied')]
    expect([first?.prev_hash, second?.prev_hash]).toEqual(['0'.repeat(64), first?.entry_hash])
    const commit = await findCommit(store.db, second?.commit_id ?? '')
    expect([commit?.leaves, commit?.tree_size]).toEqual([[second?.entry_hash], 1])
    expect(await findCommit(store.db, 'none')).toBeUndefined()
  })

  test('are read by an index: an id, and the heads of the chains', async () => {
    const plans = await queryPlans(store.db, async (db) => {
      await findPublicEntry(db, 'chat')
      await measureChains(db)
    })
    if (engine.name === 'sqlite') {
      for (const plan of plans) expect(plan).not.toMatch(/SCAN (?!tenants|chains|measured|\(?subquery|CONSTANT)/i)
      expect(plans.at(-1)).not.toMatch(/SCAN evidence/)
    }
    expect(plans.length).toBeGreaterThan(1)
    expect(await measureChains(store.db)).toEqual([
      {
        tenant_id: tenantId,
        chain: 'requests-abcdefabcdef',
        size: 3,
        checkpointed: 0,
        waiting_since: '2026-01-01T00:00:00.000Z',
      },
    ])
  })
})
