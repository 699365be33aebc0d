import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { COMPLIANCE_REPORT_ROWS } from '../../../../src/daemon/records/evidence/transparency-routes.ts'
import { exportRoot } from '../../../../src/shared/evidence/export-root.ts'
import { newId } from '../../../../src/shared/ids.ts'
import { isoTime } from '../../../../src/shared/time.ts'
import {
  ChainIntegrityResponse,
  ComplianceReportResponse,
  ListEntriesResponse,
  SearchEntriesResponse,
  TransparencyStatusResponse,
} from '../../../../src/shared/wire/transparency.ts'
import { describeEachEngine } from '../../../engines.ts'
import { addEntries, changePayload, newRequestChain, requestPayload } from '../../../evidence-rows.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedGateway, startGateway } from '../../../harness.ts'
import { addTestTenant, type TestTenant } from '../../../tenant-admin.ts'

const BASE = '/api/external/transparency'
const NOW = Date.parse('2026-05-20T12:00:00.000Z')
const daysAgo = (days: number) => isoTime(NOW - days * 86_400_000)
const minutesAgo = (minutes: number) => isoTime(NOW - minutes * 60_000)

describeEachEngine('transparency', (engine) => {
  const shared = sharedGateway({ engine, clock: createFakeClock(NOW) })

  async function get(tenant: TestTenant, path: string, query: Record<string, string> = {}) {
    const answer = await tenant.call('GET', `${BASE}/${path}?${new URLSearchParams(query)}`)
    expect(answer.status, answer.text).toBe(200)
    return answer
  }
  const status = async (tenant: TestTenant) =>
    TransparencyStatusResponse.strict().parse((await get(tenant, 'status')).body)
  const check = async (tenant: TestTenant) =>
    ChainIntegrityResponse.strict().parse((await get(tenant, 'chain-integrity')).body)

  /** Three requests and a change, each on a separate day. */
  async function tenantWithLog(ago = daysAgo) {
    const tenant = await addTestTenant(shared.current)
    const chain = newRequestChain()
    const rows = await addEntries(tenant.db, tenant.id, chain, [
      { createdAt: ago(4), payload: requestPayload({ user_id: tenant.admin.id }) },
      { createdAt: ago(3), payload: requestPayload({ result: 'denied', description: '=cmd|"x"!A1,\nnext' }) },
      { createdAt: ago(2), payload: requestPayload({ operation: 'embedding' }) },
    ])
    const change = { id: newId(), createdAt: ago(1), payload: changePayload({ actor: 'operator', user_id: null }) }
    const [changed] = await addEntries(tenant.db, tenant.id, 'changes', [change])
    return { tenant, chain, ids: [...rows, changed].map((row) => row?.id ?? ''), rows, changed }
  }

  test('status shows the length of the log, the coverage of checkpoints and the last result', async () => {
    const { tenant, chain, rows } = await tenantWithLog(minutesAgo) // too young for the daemon to make a checkpoint by itself
    const before = await status(tenant)
    expect(before).toEqual({
      status: 'operational',
      timestamp: isoTime(NOW),
      auditSystem: { totalEntries: 4, merkleRoot: null, treeSize: 0, lastEntry: minutesAgo(1) },
      chainIntegrity: { status: 'pending', validEntries: 0, invalidEntries: 0, verificationTime: null },
      transparency: { publicVerification: true, merkleProofs: true, complianceExports: true, apiVersion: '1.0' },
    })
    const made = await tenant.call('POST', `${BASE}/checkpoints`, { chain })
    await check(tenant)
    const after = await status(tenant)
    const root = exportRoot([
      { chain, size: 3, head: rows[2]?.entry_hash ?? '', root: made.body.checkpoints[0].root },
    ]).toString('hex')
    // The request for the checkpoint is recorded too.
    expect(after.auditSystem).toMatchObject({ totalEntries: 5, merkleRoot: root, treeSize: 3 })
    expect(after.chainIntegrity).toEqual({
      status: 'maintained',
      validEntries: 5,
      invalidEntries: 0,
      verificationTime: isoTime(NOW),
    })
  })

  test('status of a tenant without a log is that of an empty log', async () => {
    const tenant = await addTestTenant(shared.current)
    const { auditSystem } = await status(tenant)
    expect(auditSystem).toEqual({ totalEntries: 0, merkleRoot: null, treeSize: 0, lastEntry: null })
    expect(await check(tenant)).toMatchObject({ chainIntegrity: 'maintained', merkleRoot: null, treeSize: 0 })
  })

  test('chain-integrity names the first changed entry, and status reports it from then on', async () => {
    const { tenant, chain, ids } = await tenantWithLog()
    expect(await check(tenant)).toMatchObject({
      chainIntegrity: 'maintained',
      statistics: { totalEntries: 4, validEntries: 4, invalidEntries: 0 },
      details: [],
      treeSize: 4,
    })
    const payload = JSON.stringify(requestPayload({ result: 'success' }))
    await tenant.db
      .updateTable('evidence_entries')
      .set({ payload })
      .where('id', '=', ids[1] ?? '')
      .execute()
    const found = await check(tenant)
    expect(found).toMatchObject({
      chainIntegrity: 'violated',
      statistics: { totalEntries: 4, validEntries: 2, invalidEntries: 2 },
      merkleRoot: null,
      details: [{ entryId: ids[1], chain, seq: 1, signatureValid: false, merkleValid: false }],
    })
    expect(await status(tenant)).toMatchObject({ status: 'degraded', chainIntegrity: { status: 'violated' } })
  })

  test('entries are listed newest first with their content, by event, status and date', async () => {
    const { tenant, ids } = await tenantWithLog()
    const list = async (query: Record<string, string> = {}) =>
      ListEntriesResponse.strict().parse((await get(tenant, 'entries', query)).body)
    const found = async (query: Record<string, string>) => (await list(query)).entries.map(({ entryId }) => entryId)
    const all = await list()
    expect(all.entries.map(({ entryId }) => entryId)).toEqual([...ids].reverse())
    expect(all).toMatchObject({ page: 1, limit: 50, totalEntries: 4, totalPages: 1, hasNext: false, hasPrev: false })
    expect(all.entries[0]).toMatchObject({ event: 'group_management', actor: 'operator', status: 'SUCCESS' })
    expect(all.entries[3]).toMatchObject({
      event: 'api_access',
      actor: tenant.admin.id,
      signature: 'present',
      publicKey: 'present',
      details: { kind: 'request', model: 'test/any' },
    })
    expect(await list({ page: '2', limit: '1' })).toMatchObject({ totalPages: 4, hasNext: true, hasPrev: true })
    expect(await found({ event: 'group_management' })).toEqual([ids[3]])
    expect(await found({ status: 'ERROR' })).toEqual([ids[1]])
    expect(await found({ status: 'SUCCESS' })).toHaveLength(3)
    expect(await found({ startDate: daysAgo(3), endDate: daysAgo(2) })).toEqual([ids[2], ids[1]])
  })

  test('an expunged entry is not reported as a success', async () => {
    const { tenant, ids } = await tenantWithLog()
    const denied = tenant.db.updateTable('evidence_entries').where('id', '=', ids[1] ?? '')
    await denied.set({ payload: null }).execute()
    const { body } = await get(tenant, 'entries')
    const found = ListEntriesResponse.strict()
      .parse(body)
      .entries.find(({ entryId }) => entryId === ids[1])
    expect(found).toMatchObject({ event: 'expunged', actor: null, status: 'EXPUNGED', details: {} })
    for (const status of ['SUCCESS', 'ERROR']) {
      expect(JSON.stringify((await get(tenant, 'entries', { status })).body)).not.toContain(ids[1])
    }
    const { text } = await get(tenant, 'compliance-report', { format: 'csv' })
    expect(text).toContain(`${ids[1]},${daysAgo(3)},expunged,,EXPUNGED,{}`)
  })

  test('search covers the requested field, and returns the total', async () => {
    const { tenant, ids } = await tenantWithLog()
    const search = async (q: string, field = 'all') =>
      SearchEntriesResponse.strict().parse((await get(tenant, 'search', { q, field, limit: '2' })).body)
    const found = async (q: string, field?: string) => (await search(q, field)).results.map(({ entryId }) => entryId)
    expect(await search('api_ACCESS', 'event')).toMatchObject({ totalResults: 3, limit: 2, searchTerm: 'api_ACCESS' })
    expect(await found(tenant.admin.id, 'actor')).toEqual([ids[0]])
    expect(await found('error', 'status')).toEqual([ids[1]])
    expect((await search('success', 'status')).totalResults).toBe(3)
    expect(await found('denied', 'status')).toEqual([ids[1]])
    expect(await found('embedding', 'details')).toEqual([ids[2]])
    expect(await found('embedding', 'event')).toEqual([])
    expect(await found('group_m')).toEqual([ids[3]])
    expect(await found('%')).toEqual([])
    const missing = await tenant.call('GET', `${BASE}/search`)
    expect([missing.status, missing.body.error.details.field]).toEqual([400, 'q'])
  })

  test('a compliance report counts a period, or exports it as CSV that no spreadsheet executes', async () => {
    const { tenant, ids } = await tenantWithLog()
    const report = (query: Record<string, string>) => get(tenant, 'compliance-report', query)
    const { body } = await report({ startDate: daysAgo(3) })
    expect(ComplianceReportResponse.strict().parse(body)).toEqual({
      exportInfo: { startDate: daysAgo(3), endDate: isoTime(NOW), totalEntries: 3, format: 'json' },
      merkleRoot: null,
      chainIntegrity: 'pending',
      timestamp: isoTime(NOW),
    })
    const { text, headers } = await report({ format: 'csv' })
    expect(headers['content-type']).toBe('text/csv; charset=utf-8')
    const lines = text.split('\r\n')
    expect(lines[0]).toBe('Entry ID,Timestamp,Event,Actor,Status,Details')
    expect(lines.slice(1, -1).map((line) => line.split(',')[0])).toEqual(ids)
    expect(lines[2]).toContain('=cmd|\\""x\\""!A1,\\nnext')
    const ahead = isoTime(NOW + 60_000)
    const ofTomorrow = await report({ startDate: ahead })
    expect(ofTomorrow.body.exportInfo).toMatchObject({ startDate: ahead, endDate: ahead, totalEntries: 0 })
    const bad = await tenant.call('GET', `${BASE}/compliance-report?startDate=2026-13-01`)
    expect([bad.status, bad.body.error.details.field]).toEqual([400, 'startDate'])
  })

  test(`a compliance report in CSV with more than ${COMPLIANCE_REPORT_ROWS} entries is rejected`, async () => {
    const tenant = await addTestTenant(shared.current)
    const payload = changePayload()
    for (let part = 0; part < 10_001; part += 500) {
      const entries = Array.from({ length: Math.min(500, 10_001 - part) }, () => ({
        id: newId(),
        createdAt: daysAgo(1),
        payload,
      }))
      await addEntries(tenant.db, tenant.id, 'changes', entries)
    }
    const answer = await tenant.call('GET', `${BASE}/compliance-report?format=csv`)
    expect([answer.status, answer.body.error.details.field]).toEqual([400, 'startDate'])
    const report = await get(tenant, 'compliance-report')
    expect(report.body.exportInfo.totalEntries).toBe(10_001)
  })
})

test('a daemon with a damaged log starts, reports it, and signs no checkpoint for it', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'aigw-checkpoints-'))
  try {
    const file = join(directory, 'checkpoints')
    const gateway = await startGateway({ evidence: { checkpointFile: file } })
    const tenant = await addTestTenant(gateway)
    const chain = newRequestChain()
    const entries = Array.from({ length: 5 }, () => ({ payload: requestPayload() }))
    await addEntries(tenant.db, tenant.id, chain, entries)
    expect((await tenant.call('POST', `${BASE}/checkpoints`, { chain })).body.checkpoints).toHaveLength(1)
    const published = await readFile(file, 'utf8')

    const { db } = gateway.app
    await db.deleteFrom('evidence_entries').where('chain', '=', chain).where('seq', '=', 2).execute()
    await gateway.restart()
    expect((await gateway.call('GET', `${BASE}/status`)).body.status).toBe('degraded')
    const facts = gateway.log.find(({ facts }) => facts.cause === 'entries_missing')?.facts
    const detail = expect.stringContaining('some of the entries 0 to 4 are missing from the store')
    expect(facts).toMatchObject({ tenant_id: tenant.id, chain, detail })
    await addEntries(gateway.app.db, tenant.id, chain, [{ payload: requestPayload() }])
    const made = await gateway.call('POST', `${BASE}/checkpoints`, {})
    expect(made.status).toBe(200)
    expect(await readFile(file, 'utf8')).toContain(published)

    // A loss stays known without the file.
    await rm(file)
    await gateway.restart()
    expect((await gateway.call('GET', `${BASE}/status`)).body.status).toBe('degraded')
    const refused = await tenant.call('POST', `${BASE}/checkpoints`, { chain })
    expect([refused.status, refused.body.error.code]).toEqual([409, 'EVIDENCE_MISMATCH'])
    expect((await gateway.call('GET', `${BASE}/status`)).body.status).toBe('degraded')
    await gateway.close()
  } finally {
    await rm(directory, { recursive: true })
  }
})

test('status is degraded when the store has lost published entries', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'aigw-checkpoints-'))
  try {
    const gateway = await startGateway({ evidence: { checkpointFile: join(directory, 'checkpoints') } })
    const tenant = await addTestTenant(gateway)
    await addEntries(tenant.db, tenant.id, 'changes', [{ id: newId(), payload: changePayload() }])
    expect((await tenant.call('POST', `${BASE}/checkpoints`, {})).status).toBe(200)
    await gateway.restart()
    const status = async () => (await gateway.call('GET', `${BASE}/status`)).body.status
    expect(await status()).toBe('operational')
    const { db } = gateway.app
    for (const table of ['evidence_entries', 'evidence_checkpoints'] as const) {
      await db.deleteFrom(table).where('tenant_id', '=', tenant.id).execute()
    }
    await gateway.restart()
    expect(await status()).toBe('degraded')
  } finally {
    await rm(directory, { recursive: true })
  }
})
