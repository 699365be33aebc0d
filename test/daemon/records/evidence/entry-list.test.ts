import { afterEach, beforeEach, expect, test } from 'vitest'
import type { EntryFilter } from '../../../../src/daemon/records/evidence/entry-filter.ts'
import { listEntries } from '../../../../src/daemon/records/evidence/entry-list.ts'
import { toRequestEntry } from '../../../../src/daemon/records/evidence/request-entry.ts'
import { readChain } from '../../../../src/daemon/records/evidence/store.ts'
import { toCanonicalJson } from '../../../../src/shared/canonical-json.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { requestEnd, requestFacts } from '../../../request-facts.ts'
import { type ChainRig, newTenant, openChainRig } from './chain-rig.ts'

const ENTRIES = {
  'jti-chat': {
    ...{ type: 'api_access', severity: 'info', operation: 'chat.completion', result: 'success', status: 200 },
    ...{ user_id: 'user-1', key_id: 'key-1', model: 'p/served', requested_model: 'p/asked', request_id: 'req-1' },
    ...{ description: 'Answered', endpoint: 'POST /chat', compliance_category: 'data_protection' },
  },
  'jti-denied': {
    ...{ type: 'api_access', severity: 'warning', operation: 'chat.completion', result: 'denied', status: 403 },
    ...{ user_id: 'user-2', key_id: 'key-2', model: null, requested_model: 'p/asked', request_id: 'req-2' },
    ...{ description: 'Refused: 100%_sure\\', endpoint: 'POST /chat', compliance_category: 'security' },
  },
  failover: {
    ...{ type: 'api_access', severity: 'warning', operation: 'model_failover', result: 'success' },
    ...{ user_id: 'user-1', key_id: 'key-1', request_id: 'req-1', compliance_category: 'data_protection' },
    ...{ description: 'failed over', endpoint: 'POST /chat' },
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
  const store = storeForEach(engine)
  let rig: ChainRig
  let tenantId: string
  beforeEach(async () => {
    rig = await openChainRig(store.db, { daemonId: 'abcdefabcdef' })
    tenantId = await newTenant(store.db)
    for (const [at, [id, content]] of Object.entries(ENTRIES).entries()) {
      const createdAtMs = Date.UTC(2026, 0, 1 + at)
      await rig.ledger.commit({ evidence: [{ id, tenantId, createdAtMs, payload: toCanonicalJson(content) }] })
    }
  })
  afterEach(() => rig.ledger.close())

  const filters: [EntryFilter, Name[]][] = [
    [{}, ['jti-chat', 'jti-denied', 'failover', 'change']],
    [{ startDate: '2026-01-02T00:00:00.000Z' }, ['jti-denied', 'failover', 'change']],
    [{ endDate: '2026-01-02T00:00:00.000Z' }, ['jti-chat', 'jti-denied']],
    [{ types: ['api_access'] }, ['jti-chat', 'jti-denied', 'failover']],
    [{ types: ['group_management'] }, ['change']],
    [{ types: ['group_management', 'api_access'] }, ['jti-chat', 'jti-denied', 'failover', 'change']],
    [{ types: ['key_management'] }, []],
    [{ severity: 'warning' }, ['jti-denied', 'failover']],
    [{ userId: 'user-1' }, ['jti-chat', 'failover', 'change']],
    [{ keyId: 'key-2' }, ['jti-denied']],
    [{ result: 'success' }, ['jti-chat', 'failover', 'change']],
    [{ notResult: 'success' }, ['jti-denied']],
    [{ complianceCategory: 'authorization' }, ['change']],
    [{ operation: 'chat.completion', userId: 'user-2' }, ['jti-denied']],
    [{ model: 'p/served' }, ['jti-chat']],
    [{ model: 'p/asked' }, ['jti-chat', 'jti-denied']],
    [{ requestId: 'req-3' }, ['change']],
    [{ id: 'jti-denied' }, ['jti-denied']],
    [{ status: { min: 400, max: 499 } }, ['jti-denied']],
    [{ status: { min: 200, max: 200 } }, ['jti-chat']],
    [{ search: 'GROUP' }, ['change']],
    [{ search: '/chat' }, ['jti-chat', 'jti-denied', 'failover']],
    [{ search: '100%_sure\\' }, ['jti-denied']],
    [{ search: '0%s' }, []],
    [{ search: 'user-2' }, []],
    [{ search: 'USER-2', searchIn: ['actor'] }, ['jti-denied']],
    [{ search: 'management', searchIn: ['type'] }, ['change']],
  ]
  test('are found by the same filters in the stored form as in canonical JSON', async () => {
    const atMs = Date.UTC(2026, 1, 1)
    const denied = { result: 'denied', status: 403, error: 'CONTENT_BLOCKED', answered: undefined } as const
    const drafts = [
      toRequestEntry(requestFacts(atMs), requestEnd(atMs)),
      toRequestEntry(requestFacts(atMs, { attempts: [], entitlements: [] }), requestEnd(atMs, denied)),
      toRequestEntry(requestFacts(atMs, { requestedModel: 'p/asked' }), requestEnd(atMs, { result: 'failure' })),
    ]
    const canonicalTenant = await newTenant(store.db)
    for (const { stored, ...draft } of drafts) {
      expect(stored).toBeDefined()
      await rig.ledger.commit({ evidence: [{ ...draft, tenantId, ...(stored !== undefined && { stored }) }] })
      await rig.ledger.commit({ evidence: [{ ...draft, id: `${draft.id}-c`, tenantId: canonicalTenant }] })
    }
    const found = async (tenant: string, filter: EntryFilter) => {
      const { rows, total, counts } = await listEntries(store.db, tenant, filter, ALL)
      return { total, counts, ids: rows.map(({ id }) => id.replace(/-c$/, '')) }
    }
    const since = { startDate: '2026-02-01T00:00:00.000Z' }
    const contents: [filter: EntryFilter, matches: number][] = [
      [{ complianceCategory: 'security' }, 1],
      [{ complianceCategory: 'data_protection' }, 2],
      [{ complianceCategory: 'authorization' }, 0],
      [{ types: ['api_access'] }, 3],
      [{ severity: 'info' }, 1],
      [{ operation: 'chat.completion' }, 3],
      [{ model: 'p/asked' }, 1],
      [{ model: 'anthropic/claude-sonnet-4-5-20250929' }, 3],
      [{ status: { min: 400, max: 499 } }, 1],
      [{ search: 'claude-sonnet' }, 2],
      [{ search: 'content_blocked' }, 1],
      [{ search: 'API_ACCESS', searchIn: ['type'] }, 3],
    ]
    for (const [content, matches] of contents) {
      const filter = { ...content, ...since }
      const inStoredForm = await found(tenantId, filter)
      expect([content, inStoredForm.total]).toEqual([content, matches])
      expect(inStoredForm).toEqual(await found(canonicalTenant, filter))
    }
    const entries = await readChain(store.db, tenantId, 'requests-abcdefabcdef', { from: 4, limit: 10 })
    expect(entries.map(({ payload }) => payload)).toEqual(drafts.map(({ payload }) => payload))
  })

  test('are found by their content, also if one contains a NUL', async () => {
    for (const [filter, names] of filters) {
      const { rows, total } = await listEntries(store.db, tenantId, filter, ALL)
      expect([filter, total, ...rows.map(({ id }) => id)]).toEqual([filter, names.length, ...names])
    }
  })

  test('are paged, newest or oldest first', async () => {
    const idsOf = async (page: number, sortOrder: 'asc' | 'desc') => {
      const { rows, total } = await listEntries(store.db, tenantId, {}, { page, limit: 3, sortOrder })
      return [total, ...rows.map(({ id }) => id)]
    }
    expect(await idsOf(1, 'desc')).toEqual([4, 'change', 'failover', 'jti-denied'])
    expect(await idsOf(2, 'desc')).toEqual([4, 'jti-chat'])
    expect(await idsOf(3, 'desc')).toEqual([4])
    expect(await idsOf(1, 'asc')).toEqual([4, 'jti-chat', 'jti-denied', 'failover'])
  })

  test('are counted by type and severity together with a page of them; expunged ones have neither', async () => {
    const { db } = store
    await db.updateTable('evidence_entries').set({ payload: null }).where('id', '=', 'jti-chat').execute()
    for (const [page, names] of [
      [1, ['change', 'failover', 'jti-denied']],
      [2, ['jti-chat']],
      [3, []],
    ] as const) {
      const found = await listEntries(db, tenantId, {}, { page, limit: 3, sortOrder: 'desc' })
      expect([found.total, ...found.rows.map(({ id }) => id)]).toEqual([4, ...names])
      expect(new Set(found.counts.map(({ type, severity, count }) => [type, severity, count].join()))).toEqual(
        new Set([',,1', 'api_access,warning,2', 'group_management,info,1']),
      )
    }
    const { rows, total, counts } = await listEntries(db, tenantId, { severity: 'warning' }, ALL)
    expect([total, ...rows.map(({ id }) => id)]).toEqual([2, 'jti-denied', 'failover'])
    expect(counts).toEqual([{ type: 'api_access', severity: 'warning', count: 2 }])
    expect((await listEntries(db, tenantId, { types: ['api_access'] }, ALL)).rows.map(({ id }) => id)).toEqual([
      'jti-denied',
      'failover',
    ])
  })

  test('of a tenant are invisible to others', async () => {
    const other = await newTenant(store.db)
    expect(await listEntries(store.db, other, {}, ALL)).toEqual({ rows: [], total: 0, estimated: false, counts: [] })
  })
})
