import { expect, test } from 'vitest'
import { RECONCILE_PAGE } from '../../../../src/daemon/records/usage/reconcile.ts'
import { ReconcileUsageResponse } from '../../../../src/shared/wire/usage.ts'
import { runCli } from '../../../cli/run-cli.ts'
import { describeEachEngine } from '../../../engines.ts'
import { startGateway } from '../../../harness.ts'

const month = () => new Date().toISOString().slice(0, 7)

describeEachEngine('GET /api/admin/usage/reconcile', (engine) => {
  const start = async () => {
    const gateway = await startGateway({ engine })
    const compare = async (name = month()) => {
      const { status, text, body } = await gateway.call('GET', `/api/admin/usage/reconcile?month=${name}`)
      expect(status, text).toBe(200)
      return ReconcileUsageResponse.strict().parse(body)
    }
    return { gateway, compare, db: gateway.app.db }
  }

  test('finds no difference between the bills of requests and their receipts, over several pages', async () => {
    const { gateway, compare } = await start()
    const count = RECONCILE_PAGE + 20
    for (let sent = 0; sent < count; sent += 20)
      await Promise.all(Array.from({ length: 20 }, () => gateway.chat({ prompt: 'hi' })))
    expect(await compare()).toMatchObject({ receipts: count, unreadable: 0, differences: [], truncated: false })
    expect(await compare('2020-01')).toMatchObject({ receipts: 0, entries: 0, holders: 0, differences: [] })
  })

  test('names each sum that was changed, lost or added', async () => {
    const { gateway, compare, db } = await start()
    await gateway.chat({ prompt: 'hi' })
    await expect.poll(() => db.selectFrom('usage_days').selectAll().execute(), { timeout: 20_000 }).toHaveLength(1)
    expect((await compare()).differences).toEqual([])
    const { user_id, api_key_id } = await db.selectFrom('usage_days').selectAll().executeTakeFirstOrThrow()
    const counter = await db.selectFrom('spend_counters').selectAll().executeTakeFirst()
    const paid = counter?.points ?? 0
    const row = { tenant_id: '', holder: 'user' as const, holder_id: user_id, period: month(), nanos: 7, points: paid }
    const { id: tenant_id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
    await db.deleteFrom('spend_counters').execute()
    await db
      .insertInto('spend_counters')
      .values({ ...row, tenant_id })
      .execute()
    await db.updateTable('usage_days').set({ requests: 3 }).execute()
    const { differences } = await compare()
    expect(differences).toEqual([
      { source: 'spend', holder: 'user', id: user_id, field: 'nanos', stored: 7, receipts: 0 },
      { source: 'report', holder: 'key', id: api_key_id, field: 'requests', stored: 3, receipts: 1 },
      { source: 'report', holder: 'user', id: user_id, field: 'requests', stored: 3, receipts: 1 },
    ])
    const env = { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: gateway.adminKey, NO_COLOR: '1' }
    const shown = await runCli(['audit', 'reconcile', '--month', month(), '--json'], { env })
    expect([shown.exitCode, JSON.parse(shown.stdout)]).toEqual([1, differences])
    expect(shown.stderr).toContain(`the bills of ${month()} differ from the receipts`)
    const whole = await runCli(['audit', 'reconcile', '--month', '2020-01'], { env })
    expect(whole).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('0 receipts of 0 accounts') })
  })

  test('names deleted entries in the middle, at the end, and of a whole chain', async () => {
    const { gateway, compare, db } = await start()
    for (let sent = 0; sent < 5; sent++) await gateway.chat({ prompt: 'hi' })
    const { chain } = await db
      .selectFrom('evidence_entries')
      .select('chain')
      .where('chain', 'like', 'requests-%')
      .executeTakeFirstOrThrow()
    await expect
      .poll(() => db.selectFrom('log_positions').select('size').where('chain', '=', chain).executeTakeFirst())
      .toEqual({ size: 5 })
    const lose = (...seqs: number[]) =>
      db.deleteFrom('evidence_entries').where('chain', '=', chain).where('seq', 'in', seqs).execute()
    const lost = async (name?: string) => {
      const { differences, missing } = await compare(name)
      return [missing, differences.filter(({ source }) => source === 'log')]
    }
    const missing = (stored: number) => [
      stored,
      [{ source: 'log', holder: 'chain', id: chain, field: 'missing', stored, receipts: 0 }],
    ]
    await lose(2)
    expect(await lost()).toEqual(missing(1))
    expect(await lost('2020-01')).toEqual([0, []])
    await lose(4)
    expect(await lost()).toEqual(missing(2))
    await lose(0)
    expect(await lost()).toEqual(missing(3))
    await lose(1, 3)
    expect(await lost()).toEqual(missing(5))
    const env = { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: gateway.adminKey, NO_COLOR: '1' }
    const shown = await runCli(['audit', 'reconcile', '--month', month()], { env })
    expect(shown).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('5 entries are missing') })
  })

  test('names expunged and damaged receipts, and the command fails', async () => {
    const { gateway, compare, db } = await start()
    for (let sent = 0; sent < 2; sent++) await gateway.chat({ prompt: 'hi' })
    const entries = await db.selectFrom('evidence_entries').selectAll().where('chain', 'like', 'requests-%').execute()
    const set = (nth: number, payload: string | null) =>
      db
        .updateTable('evidence_entries')
        .set({ payload })
        .where('id', '=', entries[nth]?.id ?? '')
        .execute()
    await set(0, null)
    // Valid JSON whose members have other types than those of a receipt.
    await set(1, '{"kind":"request","cost":{},"usage":{},"metadata":7}')
    // No sum differs, so only the log shows the loss.
    for (const table of ['spend_counters', 'usage_days', 'log_positions'] as const) await db.deleteFrom(table).execute()
    const { differences, unreadable } = await compare()
    expect([unreadable, differences.filter(({ source }) => source === 'log').map(({ field }) => field)]).toEqual([
      2,
      ['expunged', 'damaged'],
    ])
    const env = { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: gateway.adminKey, NO_COLOR: '1' }
    const shown = await runCli(['audit', 'reconcile', '--month', month()], { env })
    expect(shown).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('are missing or unreadable') })
  })

  test('counts entries whose payload was expunged, and rejects an unknown month', async () => {
    const { gateway, compare, db } = await start()
    await gateway.chat({ prompt: 'hi' })
    await db.updateTable('evidence_entries').set({ payload: null }).execute()
    expect(await compare()).toMatchObject({ unreadable: 1, receipts: 0 })
    for (const name of ['2026-13', '2026', ''])
      expect((await gateway.call('GET', `/api/admin/usage/reconcile?month=${name}`)).status).toBe(400)
  })
})
