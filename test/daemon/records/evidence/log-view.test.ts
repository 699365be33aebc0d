import { afterAll, beforeAll, expect, test } from 'vitest'
import { insertRows } from '../../../../src/daemon/platform/db/insert-rows.ts'
import type { EvidenceEntryRow } from '../../../../src/daemon/platform/db/tables.ts'
import { linkEntry } from '../../../../src/daemon/records/evidence/chains.ts'
import type { EntryFilter } from '../../../../src/daemon/records/evidence/entry-filter.ts'
import { listEntries } from '../../../../src/daemon/records/evidence/entry-list.ts'
import { createLogProjector } from '../../../../src/daemon/records/evidence/log-projector.ts'
import { toCanonicalJson } from '../../../../src/shared/canonical-json.ts'
import { GENESIS_HASH } from '../../../../src/shared/evidence/entry.ts'
import { newBundleId, newId } from '../../../../src/shared/ids.ts'
import { isoTime, systemClock } from '../../../../src/shared/time.ts'
import { describeEachEngine, type TestStore } from '../../../engines.ts'
import { changePayload, requestPayload } from '../../../evidence-rows.ts'
import { queryPlans } from '../../../query-plan.ts'
import { sharedResources } from '../../../shared-resources.ts'
import { newTenant } from './chain-rig.ts'

const START = Date.UTC(2026, 0, 1)
/** Two large blocks and a tail; one large block and a tail; the changes. */
const SIZES = { 'requests-aaaaaaaaaaaa': 8_492, 'requests-bbbbbbbbbbbb': 4_600, changes: 300 }

/** A generator of the same pseudo-random numbers in each run. */
function createRandom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

type Logged = EvidenceEntryRow & { content: Record<string, unknown> | undefined }

/** Entries whose times mostly increase. Every hundredth entry is up to an hour late. */
function entriesOf(tenantId: string, chain: string, size: number, random: (below: number) => number): Logged[] {
  const entries: Logged[] = []
  let head = { size: 0, hash: GENESIS_HASH }
  for (let seq = 0; seq < size; seq++) {
    const createdAtMs = START + Math.floor((seq / size) * 86_400_000) - (random(100) === 0 ? random(3_600_000) : 0)
    const isChange = chain === 'changes'
    const status = [200, 200, 200, 403, 502][random(5)] as number
    const owner = random(2_000) === 0 ? 'rare' : `u${random(20)}`
    const content = isChange
      ? changePayload({ user_id: `u${random(20)}`, description: `created group "g${random(30)}"` })
      : requestPayload({
          user_id: owner,
          key_id: `k-${owner}-${random(2)}`,
          status,
          severity: status === 200 ? 'info' : status === 403 ? 'warning' : 'error',
          result: status === 200 ? 'success' : status === 403 ? 'denied' : 'failure',
          compliance_category: status === 403 ? 'security' : 'data_protection',
          model: status === 200 ? `p/m${random(8)}` : null,
          requested_model: random(3_000) === 0 ? 'p/seldom' : `p/m${random(8)}`,
          ...(status === 502 && { error: 'UPSTREAM_ERROR' }),
        })
    const id = isChange ? newId(createdAtMs) : newBundleId(createdAtMs)
    const isExpunged = random(50) === 0
    const row = linkEntry(
      head,
      { chain, commitId: 'c', leafIndex: 0 },
      { id, tenantId, createdAtMs, payload: toCanonicalJson(content) },
    )
    head = { size: seq + 1, hash: row.entry_hash }
    entries.push({ ...row, payload: isExpunged ? null : row.payload, content: isExpunged ? undefined : content })
  }
  return entries
}

/** Whether an entry matches, independently of the code under test. */
function isMatch({ content, created_at }: Logged, filter: EntryFilter): boolean {
  const { startDate, endDate, search, status, model, types, ...equal } = filter
  if (startDate !== undefined && created_at < startDate) return false
  if (endDate !== undefined && created_at > endDate) return false
  const wanted = Object.values({ search, status, model, types, ...equal }).some((value) => value !== undefined)
  if (content === undefined) return !wanted
  const text = (name: string) => (content[name] === undefined || content[name] === null ? '' : String(content[name]))
  if (types && !types.includes(text('type'))) return false
  if (status && !(Number(content.status) >= status.min && Number(content.status) <= status.max)) return false
  if (model !== undefined && text('model') !== model && text('requested_model') !== model) return false
  if (equal.severity !== undefined && text('severity') !== equal.severity) return false
  if (equal.userId !== undefined && text('user_id') !== equal.userId) return false
  if (equal.keyId !== undefined && text('key_id') !== equal.keyId) return false
  if (equal.result !== undefined && text('result') !== equal.result) return false
  if (equal.notResult !== undefined && text('result') === equal.notResult) return false
  const searched = ['description', 'requested_model', 'error', 'operation', 'endpoint'].map(text)
  return search === undefined || searched.some((value) => value.toLowerCase().includes(search.toLowerCase()))
}

const at = (hours: number) => isoTime(START + hours * 3_600_000)

const FILTERS: EntryFilter[] = [
  {},
  { startDate: at(5), endDate: at(20) },
  { startDate: at(30) },
  { types: ['api_access'] },
  { types: ['group_management'] },
  { severity: 'error' },
  { result: 'denied', startDate: at(12) },
  { notResult: 'success' },
  { status: { min: 400, max: 499 } },
  { model: 'p/seldom' },
  { model: 'p/m3', severity: 'warning' },
  { userId: 'u3' },
  { userId: 'rare' },
  { userId: 'nobody' },
  { userId: 'u3', startDate: at(3), endDate: at(17) },
  { userId: 'u4', status: { min: 200, max: 200 } },
  { keyId: 'k-u5-1' },
  { keyId: 'k-u5-1', userId: 'u6' },
  { search: 'SELDOM' },
  { search: 'upstream' },
  { search: 'g7"' },
  { search: 'nowhere' },
]

describeEachEngine('the log as its summaries show it', (engine) => {
  let store: TestStore
  let tenantId: string
  let entries: Logged[]
  beforeAll(async () => {
    store = await engine.open()
    sharedResources.add(store)
    tenantId = await newTenant(store.db)
    const random = createRandom(7)
    entries = Object.entries(SIZES).flatMap(([chain, size]) => entriesOf(tenantId, chain, size, random))
    const rows = entries.map(({ content, ...row }) => row)
    for (let from = 0; from < rows.length; from += 1_000) {
      await insertRows(store.db, 'evidence_entries', rows.slice(from, from + 1_000))
    }
    const log = { error: (details: object) => expect.unreachable(JSON.stringify(details)) }
    await createLogProjector({ db: store.db, clock: systemClock, log }).run()
    entries.sort((one, other) =>
      one.created_at === other.created_at ? (one.id < other.id ? 1 : -1) : one.created_at < other.created_at ? 1 : -1,
    )
  })
  afterAll(async () => {
    sharedResources.delete(store)
    await store.close()
  })

  test.each(FILTERS.map((filter) => [JSON.stringify(filter), filter] as const))(
    'has the same pages and counts as its entries: %s',
    async (_, filter) => {
      const matches = entries.filter((entry) => isMatch(entry, filter))
      const kinds = new Map<string, number>()
      for (const { content } of matches) {
        const name = `${content?.type ?? null} ${content?.severity ?? null}`
        kinds.set(name, (kinds.get(name) ?? 0) + 1)
      }
      const pages = Math.ceil(matches.length / 20)
      for (const page of new Set([1, 2, Math.ceil(pages / 3), Math.ceil(pages / 2), pages, pages + 1])) {
        if (page === 0) continue
        const found = await listEntries(store.db, tenantId, filter, { page, limit: 20, sortOrder: 'desc' })
        expect([page, found.total, found.estimated]).toEqual([page, matches.length, false])
        expect(found.rows.map(({ id }) => id)).toEqual(matches.slice((page - 1) * 20, page * 20).map(({ id }) => id))
        expect(new Map(found.counts.map(({ type, severity, count }) => [`${type} ${severity}`, count]))).toEqual(kinds)
      }
      const oldest = await listEntries(store.db, tenantId, filter, { page: 2, limit: 20, sortOrder: 'asc' })
      expect(oldest.rows.map(({ id }) => id)).toEqual(
        matches
          .map(({ id }) => id)
          .reverse()
          .slice(20, 40),
      )
    },
  )

  test('is read without a scan of the entries', async () => {
    for (const [page, filter] of [
      [200, {}],
      [600, {}],
      [100, { severity: 'error' }],
      [20, { userId: 'u3' }],
      [2, { keyId: 'k-u5-1' }],
    ] as const) {
      const plans = await queryPlans(store.db, (db) =>
        listEntries(db, tenantId, filter, { page, limit: 20, sortOrder: 'desc' }),
      )
      expect(plans.length).toBeGreaterThan(3)
      if (engine.name !== 'sqlite') continue
      // The tables of these scans are the lists of positions, one page, and results of other parts of the statement.
      for (const plan of plans)
        expect(plan).not.toMatch(/SCAN (?!facts|chains|jsonb_each|page|newest|CONSTANT ROW|\d)/i)
    }
  })
})
