import { expect, test } from 'vitest'
import { parseKeySet } from '../../../../src/shared/evidence/keys.ts'
import { verifyReceipt } from '../../../../src/shared/evidence/receipt.ts'
import { newId } from '../../../../src/shared/ids.ts'
import { ShowReceiptResponse } from '../../../../src/shared/wire/evidence.ts'
import { describeEachEngine } from '../../../engines.ts'
import { addEntries, changePayload, newRequestChain, requestPayload } from '../../../evidence-rows.ts'
import { sharedGateway, startGateway } from '../../../harness.ts'
import { addTestTenant, type TestTenant } from '../../../tenant-admin.ts'

const pathOf = (id: string) => `/api/external/receipts/${id}`
const CHAT = { prompt: 'Where is the lift?', model: 'test/any', index: 'Zero-Knowledge' }

describeEachEngine('receipts', (engine) => {
  const shared = sharedGateway({ engine })

  const publishedKeys = async () =>
    parseKeySet((await shared.current.call('GET', '/.well-known/aigw-keys.json', undefined, { key: null })).body)

  async function requestOf(tenant: TestTenant, given: Record<string, unknown>): Promise<string> {
    const [row] = await addEntries(tenant.db, tenant.id, newRequestChain(), [{ payload: requestPayload(given) }])
    return row?.id ?? ''
  }

  test('of a chat verify with only the published keys, also after a rotation', async () => {
    const tenant = await addTestTenant(shared.current)
    const chat = await tenant.call('POST', '/api/external/chat/completions', CHAT)
    const { bundle_id: bundleId, receipt_url: url } = chat.body.metadata.smltp
    expect(url).toBe(pathOf(bundleId))
    const { status, body, text } = await tenant.call('GET', url)
    expect(status, text).toBe(200)
    const { receipt } = ShowReceiptResponse.parse(body)
    expect(receipt).toMatchObject({ bundle_id: bundleId, outcome: 'allowed', status: 200, model: 'test/any' })
    expect(text).not.toContain('lift')
    expect(verifyReceipt(body.receipt, await publishedKeys())).toEqual({ ok: true })
    expect(verifyReceipt({ ...body.receipt, model: 'test/other' }, await publishedKeys())).toMatchObject({ ok: false })

    const rotated = await shared.current.call('POST', '/api/external/transparency/keys/rotate')
    expect(rotated.status, rotated.text).toBe(200)
    const again = await tenant.call('GET', url)
    expect(again.body.receipt).toEqual(body.receipt)
    expect(verifyReceipt(again.body.receipt, await publishedKeys())).toEqual({ ok: true })
  })

  test('are visible only to the requester and to security administrators', async () => {
    const tenant = await addTestTenant(shared.current)
    const owner = await tenant.addUser()
    const id = await requestOf(tenant, { user_id: owner.id })
    const reader = await tenant.callAs({ permissions: [{ section: 'smltp-security', level: 'reader' }] })
    const other = await tenant.callAs({ permissions: [{ section: 'analytics', level: 'admin' }] })
    const stranger = await addTestTenant(shared.current)
    expect((await (await tenant.callFor(owner))('GET', pathOf(id))).status).toBe(200)
    expect((await reader('GET', pathOf(id))).status).toBe(200)
    for (const call of [other, await tenant.callFor(await tenant.addUser()), stranger.call]) {
      const { status, body } = await call('GET', pathOf(id))
      expect([status, body.success, body.error]).toEqual([404, false, 'Receipt not found'])
    }
  })

  test('are 404 for unknown ids, for changes and for expunged requests, and 400 for ids that are too long', async () => {
    const tenant = await addTestTenant(shared.current)
    const [change] = await addEntries(tenant.db, tenant.id, 'changes', [{ id: newId(), payload: changePayload() }])
    const expunged = await requestOf(tenant, { user_id: tenant.admin.id })
    await tenant.db.updateTable('evidence_entries').set({ payload: null }).where('id', '=', expunged).execute()
    for (const id of ['jti-nothing', 'bnd_0123', change?.id ?? '', expunged, 'x'.repeat(128), '%C3%A9']) {
      const { status, body } = await tenant.call('GET', pathOf(id))
      expect([id, status, body.error]).toEqual([id, 404, 'Receipt not found'])
      expect(body.message).toContain('GET /transparency/entries')
    }
    const { status, body } = await tenant.call('GET', pathOf('x'.repeat(129)))
    expect([status, body.error]).toEqual([400, 'Invalid bundle id'])
  })

  test('are rejected with the name of the chain when their commit is missing or does not contain them', async () => {
    const tenant = await addTestTenant(shared.current)
    const chain = newRequestChain()
    const payload = requestPayload({ user_id: tenant.admin.id })
    const setLeaves = async (id: string, changed: (leaves: string) => string) => {
      const commits = tenant.db.selectFrom('evidence_commits').select('leaves').where('id', '=', id)
      const { leaves } = await commits.executeTakeFirstOrThrow()
      await tenant.db
        .updateTable('evidence_commits')
        .set({ leaves: changed(leaves) })
        .where('id', '=', id)
        .execute()
    }
    for (const spoil of [
      (id: string) => setLeaves(id, () => ''),
      (id: string) => setLeaves(id, (leaves) => `${leaves}junk`),
      (id: string) => setLeaves(id, (leaves) => `${leaves}${'ab'.repeat(32)}`),
      (id: string) => setLeaves(id, (leaves) => leaves.slice(0, 64) + 'z'.repeat(64)),
      (id: string) => tenant.db.deleteFrom('evidence_commits').where('id', '=', id).execute(),
      () => tenant.db.deleteFrom('evidence_entries').where('chain', '=', chain).where('seq', '=', 9).execute(),
    ]) {
      const [row] = await addEntries(tenant.db, tenant.id, chain, [{ payload }, { payload }])
      await spoil(row?.commit_id ?? '')
      const { status, body } = await tenant.call('GET', pathOf(row?.id ?? ''))
      expect([status, body.success, body.error]).toEqual([409, false, 'Evidence mismatch'])
      expect(body.message).toContain(chain)
    }
  })
})

test('receipts that are disabled are 404, and everything is still recorded', async () => {
  const gateway = await startGateway({ evidence: { receipts: false } })
  const tenant = await addTestTenant(gateway)
  const chat = await tenant.call('POST', '/api/external/chat/completions', CHAT)
  expect([chat.status, chat.body.metadata.smltp]).toEqual([200, { bundle_id: chat.headers['x-smltp-bundle-id'] }])
  const { body } = await tenant.call('GET', '/api/external/transparency/entries?event=api_access')
  const [{ entryId, details }] = body.entries
  expect(details.outcome).toBe('allowed')
  expect((await tenant.call('GET', pathOf(entryId))).status).toBe(404)
  expect((await gateway.call('GET', `/api/public/verify/${entryId}`, undefined, { key: null })).status).toBe(200)
})
