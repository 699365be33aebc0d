import { beforeAll, beforeEach, expect, test } from 'vitest'
import { newId } from '../../../../src/shared/ids.ts'
import { isoTime } from '../../../../src/shared/time.ts'
import { ListActivityLogsResponse, ListAuditLogsResponse } from '../../../../src/shared/wire/logs.ts'
import { describeEachEngine } from '../../../engines.ts'
import { addEntries, changePayload, newRequestChain, requestPayload } from '../../../evidence-rows.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedGateway } from '../../../harness.ts'
import { addTestTenant, type TestTenant } from '../../../tenant-admin.ts'

const NOW = Date.parse('2026-05-20T12:00:00.000Z')
const daysAgo = (days: number) => isoTime(NOW - days * 86_400_000)

describeEachEngine('what came into the log after a position', (engine) => {
  const shared = sharedGateway({ engine, clock: createFakeClock(NOW) })
  let tenant: TestTenant
  beforeEach(async () => {
    tenant = await addTestTenant(shared.current)
  })
  const minutesAgo = (minutes: number) => isoTime(NOW - minutes * 60_000)

  async function readAfter(after: string, query: Record<string, string> = {}) {
    const answer = await tenant.call('GET', `/api/external/activity-logs?${new URLSearchParams({ after, ...query })}`)
    expect(answer.status, answer.text).toBe(200)
    const { logs, position = '', summary } = ListActivityLogsResponse.strict().parse(answer.body).data
    expect(summary.totalLogs).toBe(logs.length)
    return { ids: logs.map(({ id }) => id), position, summary }
  }
  const add = async (chain: string, createdAt: string, given: object = {}) =>
    (await addEntries(tenant.db, tenant.id, chain, [{ createdAt, payload: requestPayload({ ...given }) }]))[0]?.id ?? ''

  test('returns every entry once, whatever their times, also from chains that are new or were quiet', async () => {
    const [running, quiet, another] = [newRequestChain(), newRequestChain(), newRequestChain()]
    await add(quiet, daysAgo(3))
    await add(quiet, daysAgo(2))
    await add(running, minutesAgo(1))
    const begin = await readAfter('now')
    expect(begin.ids).toEqual([])
    expect(await readAfter(begin.position)).toMatchObject({ ids: [], position: begin.position })

    const late = await add(running, minutesAgo(600))
    const first = await readAfter(begin.position)
    expect(first.ids).toEqual([late])
    const ofQuiet = await add(quiet, minutesAgo(3))
    const ofNew = await add(another, minutesAgo(5))
    const next = await add(running, minutesAgo(4))
    const second = await readAfter(first.position)
    expect(second.ids).toEqual([ofNew, next, ofQuiet])
    expect((await readAfter(second.position)).ids).toEqual([])
    expect(new Set((await readAfter(begin.position)).ids)).toEqual(new Set([late, ofNew, next, ofQuiet]))
  })

  test('is paged without gaps, and only with matches', async () => {
    const chains = [newRequestChain(), newRequestChain()]
    const { position } = await readAfter('now')
    const added: string[] = []
    for (let at = 0; at < 6; at++) {
      const chain = chains[at % 2] ?? ''
      const status = at < 2 ? 502 : 200
      added.push(await add(chain, minutesAgo(10 - at), { status, severity: at < 2 ? 'error' : 'info' }))
    }
    const seen: string[] = []
    let after = position
    for (let pages = 0; pages < 4; pages++) {
      const page = await readAfter(after, { limit: '2' })
      seen.push(...page.ids)
      after = page.position
    }
    expect([...seen].sort()).toEqual([...added].sort())
    const failed = await readAfter(position, { status: '5xx' })
    expect(failed.ids).toEqual(added.slice(0, 2))
    expect(failed.summary).toMatchObject({ severityBreakdown: { error: 2 }, typeBreakdown: { api_access: 2 } })
    expect((await readAfter(failed.position, { status: '5xx' })).ids).toEqual([])
  })

  test('accepts only positions that it has returned', async () => {
    const { position } = await readAfter('now')
    for (const after of ['', 'then', `${position},nonsense:1`, `${position},changes:-1`, `${position},changes`]) {
      const answer = await tenant.call('GET', `/api/external/activity-logs?${new URLSearchParams({ after })}`)
      expect([after, answer.status, answer.body.error.code]).toEqual([after, 400, 'VALIDATION_ERROR'])
    }
  })
})

describeEachEngine('the logs', (engine) => {
  const shared = sharedGateway({ engine, clock: createFakeClock(NOW) })
  let tenant: TestTenant
  let answered: string
  let denied: string
  let failed: string
  let grouped: string
  let policied: string

  beforeAll(async () => {
    tenant = await addTestTenant(shared.current)
    const { db, id, admin } = tenant
    const requests = await addEntries(db, id, newRequestChain(), [
      { createdAt: daysAgo(3), payload: requestPayload({ user_id: admin.id, key_id: newId(), request_id: 'req-one' }) },
      {
        createdAt: daysAgo(2),
        payload: requestPayload({
          result: 'denied',
          outcome: 'denied',
          status: 403,
          model: null,
          severity: 'warning',
          compliance_category: 'security',
          requested_model: 'other/100%_sure',
          error: 'PROMPT_BLOCKED',
        }),
      },
      {
        createdAt: daysAgo(1),
        payload: requestPayload({ result: 'failure', status: 502, severity: 'error', operation: 'embedding' }),
      },
      { createdAt: daysAgo(30), payload: requestPayload() },
    ])
    const changes = await addEntries(db, id, 'changes', [
      { id: newId(), createdAt: daysAgo(5), payload: changePayload({ user_id: admin.id }) },
      {
        id: newId(),
        createdAt: daysAgo(4),
        payload: changePayload({
          type: 'smltp_policy_management',
          actor: 'operator',
          user_id: null,
          key_id: null,
          description: 'External API: created policy "internal-eu"',
        }),
      },
    ])
    ;[answered = '', denied = '', failed = ''] = requests.map((row) => row.id)
    ;[grouped = '', policied = ''] = changes.map((row) => row.id)
  })

  async function activity(query: Record<string, string> = {}) {
    const answer = await tenant.call('GET', `/api/external/activity-logs?${new URLSearchParams(query)}`)
    expect(answer.status, answer.text).toBe(200)
    return ListActivityLogsResponse.strict().parse(answer.body).data
  }
  async function audit(query: Record<string, string> = {}) {
    const answer = await tenant.call('GET', `/api/external/audit-logs?${new URLSearchParams(query)}`)
    expect(answer.status, answer.text).toBe(200)
    return ListAuditLogsResponse.strict().parse(answer.body).data
  }
  const ids = (data: { logs: { id: string }[] }) => data.logs.map(({ id }) => id)

  test('show everything of the last seven days, newest first, with totals', async () => {
    const { summary, pagination, ...data } = await activity()
    expect(ids(data)).toEqual([failed, denied, answered, policied, grouped])
    expect(pagination).toEqual({ page: 1, limit: 50, total: 5, pages: 1 })
    expect(summary).toEqual({
      dateRange: { startDate: daysAgo(7), endDate: isoTime(NOW) },
      totalLogs: 5,
      severityBreakdown: { info: 3, warning: 1, error: 1 },
      typeBreakdown: { api_access: 3, group_management: 1, smltp_policy_management: 1 },
    })
    expect(ids(await activity({ sortOrder: 'asc', limit: '2', page: '2' }))).toEqual([answered, denied])
  })

  test('show only entries about guards and policies, without the resources', async () => {
    const data = await audit()
    expect(ids(data)).toEqual([failed, denied, answered, policied])
    expect(data.dateRange).toEqual({ startDate: daysAgo(7), endDate: isoTime(NOW) })
    expect(ids(await audit({ type: 'smltp_policy_management' }))).toEqual([policied])
    expect(ids(await audit({ type: 'group_management' }))).toEqual([])
    const answer = await tenant.call('GET', '/api/external/audit-logs')
    expect(Object.keys(answer.body.data.logs[0]).sort()).toEqual(
      [
        'id',
        'timestamp',
        'type',
        'severity',
        'description',
        'user',
        'metadata',
        'complianceCategory',
        'outcome',
      ].sort(),
    )
  })

  test('show the current names of users', async () => {
    const { logs } = await activity()
    const { id, name, email } = tenant.admin
    expect(logs.map(({ user }) => user)).toEqual([null, null, { id, name, email }, null, { id, name, email }])
  })

  test('show the result of a request, and no prompt', async () => {
    const [log] = (await activity({ bundleId: answered })).logs
    expect(log).toMatchObject({
      timestamp: daysAgo(3),
      type: 'api_access',
      outcome: 'success',
      complianceCategory: 'data_protection',
      resourceType: 'model',
      resourceId: 'test/any',
      metadata: {
        bundleId: answered,
        endpoint: 'POST /api/external/chat/completions',
        operation: 'chat.completion',
        requestId: 'req-one',
        status: 200,
        model: 'test/any',
        attempts: [{ model: 'test/any', status: 'success', latencyMs: 12 }],
        latencyMs: 12,
      },
    })
  })

  test('are filtered by every filter', async () => {
    const found = async (query: Record<string, string>) => ids(await activity(query))
    expect(await found({ status: '4xx' })).toEqual([denied])
    expect(await found({ status: '502' })).toEqual([failed])
    expect(await found({ outcome: 'denied' })).toEqual([denied])
    expect(await found({ severity: 'error' })).toEqual([failed])
    expect(await found({ complianceCategory: 'security' })).toEqual([denied])
    expect(await found({ operation: 'embedding' })).toEqual([failed])
    expect(await found({ model: 'other/100%_sure' })).toEqual([denied])
    expect(await found({ requestId: 'req-one' })).toEqual([answered])
    expect(await found({ userId: tenant.admin.id.toUpperCase() })).toEqual([answered, grouped])
    expect(await found({ type: 'group_management' })).toEqual([grouped])
    expect(await found({ search: '100%_SURE' })).toEqual([denied])
    expect(await found({ search: '100_%' })).toEqual([])
    expect(await found({ search: 'external/groups' })).toEqual([policied, grouped])
    expect(ids(await audit({ search: 'external/groups' }))).toEqual([])
    expect(await found({ startDate: daysAgo(2) })).toEqual([failed, denied])
    expect(await found({ startDate: '2026-05-15', endDate: '2026-05-16' })).toEqual([policied, grouped])
    expect((await activity({ startDate: '2026-01-01' })).pagination.total).toBe(6)
  })

  test('reject a period that ends before it starts, and impossible values', async () => {
    for (const [field, query] of [
      ['startDate', 'startDate=2026-05-02&endDate=2026-05-01'],
      ['startDate', 'startDate=yesterday'],
      ['status', 'status=4x'],
      ['severity', 'severity=bad'],
      ['sortBy', 'sortBy=type'],
    ]) {
      const answer = await tenant.call('GET', `/api/external/activity-logs?${query}`)
      expect([answer.status, answer.body.error.details?.field], query).toEqual([400, field])
    }
  })

  test('show that an entry existed when its content is expunged, and count it', async () => {
    const other = await addTestTenant(shared.current)
    const [row] = await addEntries(other.db, other.id, newRequestChain(), [
      { createdAt: daysAgo(1), payload: requestPayload() },
    ])
    await other.db
      .updateTable('evidence_entries')
      .set({ payload: null })
      .where('id', '=', row?.id ?? '')
      .execute()
    const { body } = await other.call('GET', '/api/external/activity-logs')
    const data = ListActivityLogsResponse.parse(body).data
    // Its result can no longer be determined.
    const unknown = { user: null, metadata: {}, severity: null, complianceCategory: null, outcome: null }
    expect(data.logs).toMatchObject([{ id: row?.id, type: 'expunged', ...unknown }])
    expect(data.summary).toMatchObject({ typeBreakdown: { expunged: 1 }, severityBreakdown: { expunged: 1 } })
    expect((await other.call('GET', '/api/external/audit-logs')).body.data.logs).toEqual([])
  })

  test('contain a chat and a change as soon as they are answered', async () => {
    const other = await addTestTenant(shared.current)
    const group = await other.call('POST', '/api/external/groups', { name: 'ops', description: '' })
    const chat = await other.call('POST', '/api/external/chat/completions', {
      prompt: 'Where is the lift?',
      model: 'test/any',
      index: 'Zero-Knowledge',
    })
    expect([group.status, chat.status]).toEqual([201, 200])
    const { body, text } = await other.call('GET', '/api/external/activity-logs')
    const { logs } = ListActivityLogsResponse.parse(body).data
    const { id, name, email } = other.admin
    expect(logs.map(({ type, outcome, user }) => ({ type, outcome, user }))).toEqual(
      expect.arrayContaining([
        { type: 'group_management', outcome: 'success', user: { id, name, email } },
        { type: 'api_access', outcome: 'success', user: { id, name, email } },
      ]),
    )
    expect(text).not.toContain('lift')
  })
})
