import { sql } from 'kysely'
import { beforeEach, expect, test } from 'vitest'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { insertRows } from '../../../../src/daemon/platform/db/insert-rows.ts'
import type { UsageDayRow } from '../../../../src/daemon/platform/db/tables.ts'
import { createLogProjector } from '../../../../src/daemon/records/evidence/log-projector.ts'
import { createSealer } from '../../../../src/daemon/records/evidence/sealing.ts'
import { createLedger } from '../../../../src/daemon/records/ledger/ledger.ts'
import { toCanonicalJson } from '../../../../src/shared/canonical-json.ts'
import { newBundleId, newId } from '../../../../src/shared/ids.ts'
import { TAGS_PER_DAY } from '../../../../src/shared/spec-limits.ts'
import { isoTime } from '../../../../src/shared/time.ts'
import { OTHER_TAGS } from '../../../../src/shared/wire/tags.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { addEntries, changePayload, newRequestChain, requestPayload } from '../../../evidence-rows.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { newTenant, openChainRig } from './chain-rig.ts'

const DAY_MS = 86_400_000
const NOW = Date.parse('2026-03-01T00:00:00.000Z')

/** A pseudo-random receipt. Some are rejected, paid by another user, or paid in dollars. */
function receipt(number: number): Record<string, unknown> {
  const pick = (from: number) => (Math.imul(number + 1, 2_654_435_761) >>> 8) % from
  const startedAt = isoTime(NOW - pick(3) * DAY_MS - (number % 7) * 1_000)
  if (pick(9) === 0) {
    return requestPayload({
      result: 'denied',
      status: 403,
      model: null,
      usage: null,
      cost: null,
      user_id: 'u1',
      key_id: 'k1',
    })
  }
  return requestPayload({
    user_id: `u${pick(4)}`,
    key_id: `k${pick(5)}`,
    model: `p/m${pick(3)}`,
    usage: { estimated: false, input_tokens: pick(500), output_tokens: pick(90) },
    cost: { mode: pick(2) ? 'usage-by-model' : 'user-completions', nanos: pick(10_000), points: pick(3) },
    metadata: { ending: 'complete', streamed: false, ...(pick(6) === 0 && { payer_id: 'payer' }) },
    times: { started_at: startedAt, first_token_ms: 1, latency_ms: 2 },
  })
}

type Receipt = {
  usage: { input_tokens: number; output_tokens: number }
  cost: { mode: string; nanos: number; points: number } | null
  metadata: { payer_id?: string }
  times: { started_at: string }
  [name: string]: unknown
}

/** The sums over receipts, computed independently of the code under test. */
function sumsOf(receipts: readonly unknown[]): Map<string, number[]> {
  const sums = new Map<string, number[]>()
  for (const { usage, cost, model, user_id, key_id, metadata, times } of receipts as Receipt[]) {
    if (!cost) continue
    const name = [times.started_at.slice(0, 10), metadata.payer_id ?? user_id, key_id, model].join()
    const billed = cost.mode === 'usage-by-model' ? cost.nanos : 0
    const added = [1, usage.input_tokens, usage.output_tokens, cost.nanos, billed, cost.points]
    sums.set(
      name,
      added.map((amount, at) => amount + (sums.get(name)?.[at] ?? 0)),
    )
  }
  return sums
}

async function storedSums(db: Db, tenantId: string): Promise<Map<string, number[]>> {
  const rows = await db.selectFrom('usage_days').selectAll().where('tenant_id', '=', tenantId).execute()
  const amounts = (row: UsageDayRow) => [
    ...[row.requests, row.input_tokens, row.output_tokens],
    ...[row.nanos, row.billed_nanos, row.points],
  ]
  return new Map(rows.map((row) => [[row.day, row.user_id, row.api_key_id, row.model].join(), amounts(row)]))
}

/** Makes each write of a usage row of this tenant fail. */
async function failFor(db: Db, tenantId: string, engine: string): Promise<void> {
  const name = sql.lit(tenantId)
  if (engine === 'sqlite')
    await sql`create trigger refuse_usage before insert on usage_days when new.tenant_id = ${name}
      begin select raise(abort, 'refused'); end`.execute(db)
  else await sql`alter table usage_days add constraint refuse_usage check (tenant_id <> ${name}) not valid`.execute(db)
}

describeEachEngine('usage by day', (engine) => {
  const store = storeForEach(engine)
  const failures: unknown[] = []
  const log = { info() {}, error: (details: object) => void failures.push(details) }
  const clock = createFakeClock(NOW)
  let tenantId: string
  beforeEach(async () => {
    failures.length = 0
    tenantId = await newTenant(store.db)
  })
  const newProjector = () => createLogProjector({ db: store.db, clock, log })
  const receipts = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => receipt(from + at))
  const add = (chain: string, payloads: readonly object[]) =>
    addEntries(
      store.db,
      tenantId,
      chain,
      payloads.map((payload) => ({ payload })),
    )

  test('equals the sums over the receipts, whatever the number of steps, chains and daemons', async () => {
    const all = receipts(0, 900)
    const [one, other] = [newRequestChain(), newRequestChain()]
    await add(one, all.slice(0, 300))
    await newProjector().run()
    expect(await storedSums(store.db, tenantId)).toEqual(sumsOf(all.slice(0, 300)))
    await add(one, all.slice(300, 600))
    await add(other, all.slice(600))
    await add('changes', [changePayload()])
    await Promise.all([newProjector().run(), newProjector().run(), newProjector().run()])
    await newProjector().run()
    await newProjector().run()
    expect(await storedSums(store.db, tenantId)).toEqual(sumsOf(all))
    expect(failures).toEqual([])
  })

  test('is the same if a step fails before its transaction ends', async () => {
    const all = receipts(0, 400)
    const chain = newRequestChain()
    await add(chain, all.slice(0, 100))
    const projector = newProjector()
    await projector.run()
    await add(chain, all.slice(100))
    await sql`alter table usage_days rename to hidden_days`.execute(store.db)
    await expect(projector.run()).rejects.toThrow()
    await sql`alter table hidden_days rename to usage_days`.execute(store.db)
    expect(await storedSums(store.db, tenantId)).toEqual(sumsOf(all.slice(0, 100)))
    expect(await store.db.selectFrom('log_blocks').select('block').execute()).toEqual([])
    await projector.run()
    await newProjector().run()
    expect(await storedSums(store.db, tenantId)).toEqual(sumsOf(all))
    expect(await store.db.selectFrom('log_blocks').select('block').execute()).toEqual([{ block: 0 }])
  })

  test('a damaged entry or a failing chain of one tenant does not stop the summaries of the others', async () => {
    const other = await newTenant(store.db)
    const [first, second] = [tenantId, other].sort() as [string, string]
    const fill = (tenant: string, chain: string, payloads: readonly object[]) =>
      addEntries(
        store.db,
        tenant,
        chain,
        payloads.map((payload) => ({ payload })),
      )
    const damaged = newRequestChain()
    await fill(first, damaged, receipts(0, 3))
    const payload = '{"kind":"request","cost":{"nanos":1},"usage":{}}'
    await sql`update evidence_entries set payload = ${payload} where tenant_id = ${first} and seq = 0`.execute(store.db)
    const own = receipts(10, 20)
    await fill(second, newRequestChain(), own)
    await newProjector().run()
    expect(await storedSums(store.db, second)).toEqual(sumsOf(own))
    // Entries of another program may have no metadata, also if the rest is a bill.
    const { metadata: _, ...bare } = receipt(1)
    const unusual = newRequestChain()
    await fill(first, unusual, [bare, { ...bare, metadata: null }])
    await newProjector().run()
    const counted = await store.db.selectFrom('log_positions').select('size').where('chain', '=', unusual).execute()
    expect(counted).toEqual([{ size: 2 }])
    // Usage that cannot be stored.
    await fill(first, damaged, receipts(3, 6))
    const more = receipts(20, 30)
    await fill(second, newRequestChain(), more)
    const projector = newProjector()
    await failFor(store.db, first, engine.name)
    await expect(projector.run()).rejects.toThrow()
    expect(await storedSums(store.db, second)).toEqual(sumsOf([...own, ...more]))
  })

  test('has a bounded number of tags per day, and always those with a budget', async () => {
    const at = isoTime(NOW)
    const amounts = { requests: 1, input_tokens: 1, output_tokens: 1, nanos: 1, billed_nanos: 1, points: 0 }
    const common = { tenant_id: tenantId, day: '2026-03-01', user_id: 'u', api_key_id: 'k', model: 'p/m', ...amounts }
    const stored = Array.from({ length: TAGS_PER_DAY - 2 }, (_, number) => ({ ...common, tag: `old-${number}` }))
    await insertRows(store.db, 'usage_days', [...stored, { ...common, tag: '' }])
    const budget = { id: newId(), tenant_id: tenantId, scope: 'tag' as const, subject: 'paid', limit_nanos: 1 }
    await insertRows(store.db, 'budgets', [{ ...budget, created_at: at, updated_at: at }])
    const tagged = (tag: string, day = at) =>
      requestPayload({ metadata: { tag }, user_id: 'u', key_id: 'k', model: 'p/m', times: { started_at: day } })
    const projector = newProjector()
    const chain = newRequestChain()
    await add(
      chain,
      ['new-1', 'old-1'].map((tag) => tagged(tag)),
    )
    await projector.run()
    await add(chain, [
      ...['new-2', 'new-3', 'new-4', 'new-3', 'paid', 'old-1'].map((tag) => tagged(tag)),
      tagged('new-5', isoTime(NOW - DAY_MS)),
    ])
    await projector.run()
    await newProjector().run()
    await add(newRequestChain(), [tagged('new-6'), tagged('new-2'), tagged('paid')])
    await newProjector().run()
    const rows = await store.db
      .selectFrom('usage_days')
      .select(['day', 'tag', 'requests'])
      .where('tenant_id', '=', tenantId)
      .where((where) => where.or([where('tag', 'not like', 'old-%'), where('requests', '>', 1)]))
      .orderBy('tag')
      .execute()
    expect(rows.map(({ day, tag, requests }) => [day.slice(8), tag, requests])).toEqual([
      ['01', '', 1],
      ['01', OTHER_TAGS, 4],
      ['01', 'new-1', 1],
      ['01', 'new-2', 2],
      ['28', 'new-5', 1],
      ['01', 'old-1', 3],
      ['01', 'paid', 2],
    ])
    expect(failures).toEqual([])
  })

  /** Writes receipts as the daemon does. The ledger passes each commit on to the projector unless `isLost`. */
  async function commitReceipts(all: readonly object[], isLost: (commit: number) => boolean) {
    const { keys } = await openChainRig(store.db, { clock })
    const projector = newProjector()
    let commits = 0
    const sealer = createSealer({
      ...{ db: store.db, clock, keys, daemonId: 'cccccccccccc' },
      onStored(...stored) {
        if (!isLost(commits++)) projector.follow(...stored)
      },
    })
    const ledger = createLedger({ db: store.db, clock, log, sealer })
    for (const payload of all) {
      const id = newBundleId(NOW)
      await ledger.commit({ evidence: [{ id, tenantId, createdAtMs: NOW, payload: toCanonicalJson(payload) }] })
    }
    await ledger.close()
    return projector
  }

  test('is up to date a second after a commit', async () => {
    const all = receipts(0, 30)
    const projector = await commitReceipts(all, () => false)
    expect(await storedSums(store.db, tenantId)).toEqual(new Map())
    clock.advance(1_000)
    // Waits for the step that the clock has started.
    await projector.close()
    expect(await storedSums(store.db, tenantId)).toEqual(sumsOf(all))
    expect([failures, clock.pending]).toEqual([[], 0])
  })

  test('includes commits that were not passed on, such as those of a killed daemon', async () => {
    const all = receipts(0, 30)
    const projector = await commitReceipts(all, (commit) => commit % 3 === 1)
    clock.advance(1_000)
    await projector.run()
    await newProjector().run()
    expect(await storedSums(store.db, tenantId)).toEqual(sumsOf(all))
    expect(failures).toEqual([])
    await projector.close()
  })
})
