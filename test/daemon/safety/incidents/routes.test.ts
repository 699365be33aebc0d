import { expect, test } from 'vitest'
import type { IncidentRow } from '../../../../src/daemon/platform/db/tables.ts'
import { INCIDENTS_KEPT_DAYS, listIncidents, purgeIncidents } from '../../../../src/daemon/safety/incidents/store.ts'
import { newRequestId } from '../../../../src/shared/ids.ts'
import { DAY_MS, isoTime } from '../../../../src/shared/time.ts'
import {
  CountIncidentsResponse,
  ListIncidentsResponse,
  ShowIncidentResponse,
} from '../../../../src/shared/wire/incidents.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedGateway } from '../../../harness.ts'
import { incidentRow } from '../../../incident-rows.ts'
import { queryPlans } from '../../../query-plan.ts'
import { addTestTenant, type TestTenant } from '../../../tenant-admin.ts'

const BASE = '/api/admin/incidents'
const at = (day: number) => `2026-03-0${day}T00:00:00.000Z`

describeEachEngine('incidents', (engine) => {
  const shared = sharedGateway({ engine })

  async function tenantWith(...rows: Partial<ReturnType<typeof incidentRow>>[]) {
    const tenant = await addTestTenant(shared.current)
    const stored = rows.map((row) => incidentRow({ tenant_id: tenant.id, ...row }))
    for (const row of stored) await tenant.db.insertInto('incidents').values(row).execute()
    return { tenant, stored }
  }
  async function list(tenant: TestTenant, query: Record<string, string> = {}) {
    const answer = await tenant.call('GET', `${BASE}?${new URLSearchParams(query)}`)
    expect(answer.status, answer.text).toBe(200)
    return ListIncidentsResponse.strict().parse(answer.body)
  }

  test('are listed newest first, each with its kind and never with the found value', async () => {
    const { tenant, stored } = await tenantWith(
      { created_at: at(1) },
      { created_at: at(2), kind: 'prompt_shield', risk_score: 92, action: 'block', enforced: 0, model: 'test/any' },
    )
    const { incidents, pagination } = await list(tenant)
    expect(incidents.map(({ id }) => id)).toEqual([stored[1]?.id, stored[0]?.id])
    expect(incidents[0]).toMatchObject({ kind: 'prompt_shield', riskScore: 92, enforced: false, model: 'test/any' })
    expect(incidents[1]).toMatchObject({ types: { EMAIL: 1 }, count: 1, enforced: true, model: null })
    expect(pagination).toEqual({ page: 1, limit: 50, total: 2, pages: 1 })
    const shown = await tenant.call('GET', `${BASE}/${stored[0]?.id.toUpperCase()}`)
    expect(ShowIncidentResponse.strict().parse(shown.body).incident).toEqual(incidents[1])
  })

  test('are filtered by every filter, and by several at once', async () => {
    const { tenant, stored } = await tenantWith(
      { created_at: at(1), kind: 'dlp', severity: 'high', direction: 'output', action: 'remove' },
      { created_at: at(2), kind: 'pii', severity: 'low', direction: 'input', action: 'log' },
      { created_at: at(3), kind: 'dlp', severity: 'low', direction: 'retrieved', action: 'block' },
    )
    const [first, second, third] = stored.map(({ id }) => id)
    const found = async (query: Record<string, string>) => (await list(tenant, query)).incidents.map(({ id }) => id)
    expect(await found({ kind: 'dlp' })).toEqual([third, first])
    expect(await found({ severity: 'low' })).toEqual([third, second])
    expect(await found({ direction: 'retrieved' })).toEqual([third])
    expect(await found({ action: 'remove', kind: 'dlp' })).toEqual([first])
    expect(await found({ apiKeyId: stored[1]?.api_key_id ?? '' })).toEqual([second])
    expect(await found({ userId: stored[2]?.user_id ?? '' })).toEqual([third])
    expect(await found({ requestId: stored[0]?.request_id ?? '' })).toEqual([first])
    expect(await found({ startDate: at(2) })).toEqual([third, second])
    expect(await found({ endDate: '2026-03-02T01:00:00+01:00' })).toEqual([second, first])
    expect(await found({ sortOrder: 'asc', limit: '1', page: '2' })).toEqual([second])
    expect((await tenant.call('GET', `${BASE}?kind=virus`)).body.error.details).toEqual({
      field: 'kind',
      value: 'virus',
    })
  })

  test('are read in the order of their key, without sorting, and by request only around its time', async () => {
    const { tenant, stored } = await tenantWith({ created_at: at(1) }, { created_at: at(2) })
    const [first] = stored as [IncidentRow]
    const page = { page: 1, limit: 1, sortBy: 'createdAt', sortOrder: 'desc' } as const
    const plansOf = async (filter: object) => {
      const plans = await queryPlans(tenant.db, (db) => listIncidents(db, tenant.id, { ...page, ...filter }))
      return plans.join('\n')
    }
    if (engine.name === 'sqlite') {
      expect(await plansOf({})).not.toMatch(/temp b-tree/i)
      expect(await plansOf({ kind: 'pii' })).toContain('PRIMARY KEY (tenant_id=?)')
      const ofRequest = await plansOf({ requestId: first.request_id })
      expect(ofRequest).toContain('PRIMARY KEY (tenant_id=? AND created_at>? AND created_at<?)')
    }
    expect((await list(tenant, { requestId: first.request_id })).pagination.total).toBe(1)
  })

  test('are found by a request id that has another time or no time', async () => {
    const { tenant, stored } = await tenantWith(
      { created_at: at(1), request_id: newRequestId(Date.parse(at(5))) },
      { created_at: at(2), request_id: 'req-handmade' },
    )
    for (const { id, request_id } of stored) {
      expect((await list(tenant, { requestId: request_id })).incidents.map((incident) => incident.id)).toEqual([id])
    }
    expect((await list(tenant, { requestId: 'req-unknown' })).incidents).toEqual([])
  })

  test('are counted by kind and action', async () => {
    const { tenant } = await tenantWith(
      { created_at: at(1) },
      { created_at: at(2) },
      { kind: 'canary', action: 'block' },
    )
    const counts = async (query = '') =>
      CountIncidentsResponse.strict().parse((await tenant.call('GET', `${BASE}/counts${query}`)).body)
    expect(await counts()).toEqual({
      success: true,
      total: 3,
      counts: [
        { kind: 'canary', severity: 'medium', action: 'block', enforced: true, count: 1 },
        { kind: 'pii', severity: 'medium', action: 'mask', enforced: true, count: 2 },
      ],
    })
    expect((await counts(`?startDate=${at(2)}`)).total).toBe(1)
  })

  test('return 404 INCIDENT_NOT_FOUND for unknown ids', async () => {
    const { tenant } = await tenantWith()
    for (const id of ['f'.repeat(24), 'nonsense']) {
      const answer = await tenant.call('GET', `${BASE}/${id}`)
      expect([answer.status, answer.body.error.code]).toEqual([404, 'INCIDENT_NOT_FOUND'])
    }
  })

  test(`are kept for ${INCIDENTS_KEPT_DAYS} days`, async () => {
    const clock = createFakeClock(Date.parse('2027-06-01T00:00:00Z'))
    const old = isoTime(clock.now() - INCIDENTS_KEPT_DAYS * DAY_MS - 1)
    const { tenant, stored } = await tenantWith(...Array.from({ length: 520 }, () => ({ created_at: old })), {
      created_at: isoTime(clock.now() - INCIDENTS_KEPT_DAYS * DAY_MS),
    })
    await purgeIncidents({ db: tenant.db, clock })
    expect((await list(tenant)).incidents.map(({ id }) => id)).toEqual([stored.at(-1)?.id])
  })
})
