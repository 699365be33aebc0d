import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  countEntries,
  type EntryFilter,
  findCommit,
  findEntry,
  findPublicEntry,
  listChains,
  listEntries,
  measureChains,
} from '../../../src/daemon/evidence/store.ts'
import { toCanonicalJson } from '../../../src/shared/canonical-json.ts'
import { describeEachEngine, type TestStore } from '../../engines.ts'
import { queryPlans } from '../../query-plan.ts'
import { type ChainRig, newTenant, openChainRig } from './chain-rig.ts'

const ENTRIES = {
  chat: {
    ...{ type: 'api_access', severity: 'info', operation: 'chat.completion', result: 'success', status: 200 },
    ...{ user_id: 'user-1', key_id: 'key-1', model: 'p/served', requested_model: 'p/asked', request_id: 'req-1' },
    ...{ description: 'Answered', endpoint: 'POST /chat', compliance_category: 'data_protection' },
  },
  denied: {
    ...{ type: 'api_access', severity: 'warning', operation: 'chat.completion', result: 'denied', status: 403 },
    ...{ user_id: 'user-2', key_id: 'key-2', model: null, requested_model: 'p/asked', request_id: 'req-2' },
    ...{ description: 'Refused: 100%_sure\\', endpoint: 'POST /chat', compliance_category: 'security' },
  },
  change: {
    ...{ type: 'group_management', severity: 'info', operation: 'create', result: 'success' },
    ...{ user_id: 'user-1', key_id: 'key-1', request_id: 'req-3', compliance_category: 'authorization' },
    ...{ description: 'created group "NUL \0 here"', endpoint: 'POST /groups' },
  },
}
type Name = keyof typeof ENTRIES
const ALL = { page: 1, limit: 10, sortOrder: 'asc' } as const

describeEachEngine('entries of the log', (engine) => {
  let store: TestStore
  let rig: ChainRig
  let tenantId: string
  beforeEach(async () => {
    store = await engine.open()
    rig = await openChainRig(store.db, { daemonId: 'abcdefabcdef' })
    tenantId = await newTenant(store.db)
    for (const [at, [id, content]] of Object.entries(ENTRIES).entries()) {
      const createdAtMs = Date.UTC(2026, 0, 1 + at)
      await rig.ledger.commit({ evidence: [{ id, tenantId, createdAtMs, payload: toCanonicalJson(content) }] })
    }
  })
  afterEach(async () => {
    await rig.ledger.close()
    await store.close()
  })

  const filters: [EntryFilter, Name[]][] = [
    [{}, ['chat', 'denied', 'change']],
    [{ startDate: '2026-01-02T00:00:00.000Z' }, ['denied', 'change']],
    [{ endDate: '2026-01-02T00:00:00.000Z' }, ['chat', 'denied']],
    [{ types: ['api_access'] }, ['chat', 'denied']],
    [{ types: ['group_management', 'api_access'] }, ['chat', 'denied', 'change']],
    [{ severity: 'warning' }, ['denied']],
    [{ userId: 'user-1' }, ['chat', 'change']],
    [{ keyId: 'key-2' }, ['denied']],
    [{ result: 'success' }, ['chat', 'change']],
    [{ notResult: 'success' }, ['denied']],
    [{ complianceCategory: 'authorization' }, ['change']],
    [{ operation: 'chat.completion', userId: 'user-2' }, ['denied']],
    [{ model: 'p/served' }, ['chat']],
    [{ model: 'p/asked' }, ['chat', 'denied']],
    [{ requestId: 'req-3' }, ['change']],
    [{ id: 'denied' }, ['denied']],
    [{ status: { min: 400, max: 499 } }, ['denied']],
    [{ status: { min: 200, max: 200 } }, ['chat']],
    [{ search: 'GROUP' }, ['change']],
    [{ search: '/chat' }, ['chat', 'denied']],
    [{ search: '100%_sure\\' }, ['denied']],
    [{ search: '0%s' }, []],
    [{ search: 'user-2' }, []],
    [{ search: 'USER-2', searchIn: ['actor'] }, ['denied']],
    [{ search: 'management', searchIn: ['type'] }, ['change']],
  ]
  test('are found by what they say, also where one holds a NUL', async () => {
    for (const [filter, names] of filters) {
      const { rows, total } = await listEntries(store.db, tenantId, filter, ALL)
      expect([filter, total, ...rows.map(({ id }) => id)]).toEqual([filter, names.length, ...names])
    }
  })

  test('come in pages, newest or oldest first, and are counted by type and severity', async () => {
    const { db } = store
    const newest = await listEntries(db, tenantId, {}, { page: 1, limit: 2, sortOrder: 'desc' })
    expect([newest.total, ...newest.rows.map(({ id }) => id)]).toEqual([3, 'change', 'denied'])
    const last = await listEntries(db, tenantId, {}, { page: 2, limit: 2, sortOrder: 'desc' })
    expect([last.total, ...last.rows.map(({ id }) => id)]).toEqual([3, 'chat'])
    await db.updateTable('evidence_entries').set({ payload: null }).where('id', '=', 'chat').execute()
    const counts = await countEntries(db, tenantId, {})
    expect(new Set(counts.map(({ type, severity, count }) => [type, severity, count].join()))).toEqual(
      new Set([',,1', 'api_access,warning,1', 'group_management,info,1']),
    )
  })

  test('of a tenant are nobody else’s, but for the hashes of one whose id is known', async () => {
    const other = await newTenant(store.db)
    expect(await listEntries(store.db, other, {}, ALL)).toEqual({ rows: [], total: 0 })
    expect(await findEntry(store.db, other, 'chat')).toBeUndefined()
    expect(await listChains(store.db, other)).toEqual([])
    const [first, second] = [await findEntry(store.db, tenantId, 'chat'), await findPublicEntry(store.db, 'denied')]
    expect([first?.prev_hash, second?.prev_hash]).toEqual(['0'.repeat(64), first?.entry_hash])
    const commit = await findCommit(store.db, second?.commit_id ?? '')
    expect([commit?.leaves, commit?.tree_size]).toEqual([[second?.entry_hash], 1])
    expect(await findCommit(store.db, 'none')).toBeUndefined()
  })

  test('are read by an index: the window of a list, an id, and the ends of the chains', async () => {
    const window = { startDate: '2026-01-01T00:00:00.000Z', endDate: '2026-01-07T00:00:00.000Z', userId: 'user-1' }
    const plans = await queryPlans(store.db, async (db) => {
      await listEntries(db, tenantId, window, ALL)
      await findPublicEntry(db, 'chat')
      await measureChains(db)
    })
    if (engine.name === 'sqlite') {
      for (const plan of plans) expect(plan).not.toMatch(/SCAN (?!tenants|chains|measured|\(?subquery|CONSTANT)/i)
      expect(plans[0]).toContain('evidence_entries_by_time')
      expect(plans.at(-1)).not.toMatch(/SCAN evidence/)
    }
    expect(plans.length).toBeGreaterThan(2)
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
