import { DefaultQueryExecutor } from 'kysely'
import { afterEach, beforeAll, expect, test, vi } from 'vitest'
import { insertRows } from '../../../../src/daemon/platform/db/insert-rows.ts'
import { linkEntry } from '../../../../src/daemon/records/evidence/chains.ts'
import { createLogProjector } from '../../../../src/daemon/records/evidence/log-projector.ts'
import { toCanonicalJson } from '../../../../src/shared/canonical-json.ts'
import { GENESIS_HASH } from '../../../../src/shared/evidence/entry.ts'
import { newBundleId } from '../../../../src/shared/ids.ts'
import { isoTime, systemClock } from '../../../../src/shared/time.ts'
import { ListActivityLogsResponse } from '../../../../src/shared/wire/logs.ts'
import { describeEachEngine } from '../../../engines.ts'
import { newRequestChain, requestPayload } from '../../../evidence-rows.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedGateway } from '../../../harness.ts'
import { addTestTenant, type TestTenant } from '../../../tenant-admin.ts'

const NOW = Date.parse('2026-05-20T12:00:00.000Z')
const DAY_MS = 86_400_000
/** A block of level 2, two of level 1, and a tail. */
const CHAIN_ENTRIES = 4_700
const CHAINS = 3

/** Each statement is a round trip on PostgreSQL. */
const STATEMENTS = 8

/** Writes chains that overlap in time, and summarises them. Returns the number of entries with the severity `error`. */
async function fillLog({ db, id: tenantId, admin }: TestTenant): Promise<number> {
  let errors = 0
  for (let chainAt = 0; chainAt < CHAINS; chainAt++) {
    const chain = newRequestChain()
    let head = { size: 0, hash: GENESIS_HASH }
    const rows = Array.from({ length: CHAIN_ENTRIES }, (_, at) => {
      const createdAtMs = NOW - 6 * DAY_MS + Math.floor(((at + 1) / CHAIN_ENTRIES) * 5 * DAY_MS) + chainAt
      const isError = at % 90 === 0
      if (isError) errors++
      const content = requestPayload({
        user_id: at % 50 === 0 ? admin.id : `user-${at % 7}`,
        model: `test/model-${at % 5}`,
        ...(isError && { severity: 'error', result: 'failure', status: 502 }),
      })
      const id = newBundleId(createdAtMs)
      const draft = { id, tenantId, createdAtMs, payload: toCanonicalJson(content) }
      const row = linkEntry(head, { chain, commitId: 'c', leafIndex: 0 }, draft)
      head = { size: at + 1, hash: row.entry_hash }
      return row
    })
    for (let from = 0; from < rows.length; from += 1_000) {
      await insertRows(db, 'evidence_entries', rows.slice(from, from + 1_000))
    }
  }
  const log = { error: (details: object) => expect.unreachable(JSON.stringify(details)) }
  await createLogProjector({ db, clock: systemClock, log }).run()
  return errors
}

describeEachEngine('a page of a log of several chains', (engine) => {
  const shared = sharedGateway({ engine, clock: createFakeClock(NOW) })
  let tenant: TestTenant
  let errors: number
  beforeAll(async () => {
    tenant = await addTestTenant(shared.current)
    errors = await fillLog(tenant)
  })
  afterEach(() => vi.restoreAllMocks())

  /** The statements that a call executes. The limiter's statements are not counted, because they are not of the list. */
  async function statementsOf(path: string) {
    await tenant.call('GET', path)
    const statements: string[] = []
    const execute = DefaultQueryExecutor.prototype.executeQuery
    vi.spyOn(DefaultQueryExecutor.prototype, 'executeQuery').mockImplementation(function (
      this: DefaultQueryExecutor,
      query,
    ) {
      if (!query.sql.includes('rate_counters')) statements.push(query.sql)
      return execute.call(this, query) as never
    })
    const answer = await tenant.call('GET', path)
    vi.restoreAllMocks()
    expect(answer.status, answer.text).toBe(200)
    return { statements, answer }
  }

  test.each([
    ['the first page', ''],
    ['a period that begins within blocks', `startDate=${isoTime(NOW - 3.3 * DAY_MS)}`],
    ['the oldest entries', 'sortOrder=asc'],
    ['a page in the middle', 'page=350'],
    ['the last page', `page=${Math.ceil((CHAINS * CHAIN_ENTRIES) / 20)}`],
    ['a severity', 'severity=error'],
    ['a severity in a period', `severity=error&startDate=${isoTime(NOW - 3.3 * DAY_MS)}`],
    ['a status', 'status=5xx'],
    ['a type', 'type=api_access'],
    ['a user', 'userId=USER'],
    ['a model and an outcome', 'model=test/model-0&outcome=failure'],
    ['a search', 'search=MODEL-3'],
    ['a search without a match', 'search=zzzz'],
    ['one request', 'requestId=req-one'],
  ])(`takes at most ${STATEMENTS} statements: %s`, async (_, query) => {
    const path = `/api/external/activity-logs?limit=20&${query.replace('USER', tenant.admin.id)}`
    const { statements } = await statementsOf(path)
    expect(statements.length, statements.join('\n')).toBeLessThanOrEqual(STATEMENTS)
    expect(statements.length).toBeGreaterThan(0)
  })

  test('takes at most 3 statements after a position', async () => {
    const path = '/api/external/activity-logs?limit=20&after='
    const { statements, answer } = await statementsOf(`${path}now`)
    expect(statements.length, statements.join('\n')).toBeLessThanOrEqual(3)
    const next = await statementsOf(path + encodeURIComponent(answer.body.data.position))
    expect(next.statements.length, next.statements.join('\n')).toBeLessThanOrEqual(3)
  })

  test('has the entries and the totals of all chains', async () => {
    const { body } = await tenant.call('GET', '/api/external/activity-logs?severity=error&limit=20')
    const { logs, summary } = ListActivityLogsResponse.parse(body).data
    expect(summary).toMatchObject({ totalLogs: errors, severityBreakdown: { error: errors } })
    expect(logs).toHaveLength(20)
    const times = logs.map(({ timestamp }) => timestamp)
    expect(times).toEqual([...times].sort().reverse())
  })
})
