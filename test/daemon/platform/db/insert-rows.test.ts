import fc from 'fast-check'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { UnstorableValueError } from '../../../../src/daemon/platform/db/engine.ts'
import { insertRows } from '../../../../src/daemon/platform/db/insert-rows.ts'
import { insertTogether } from '../../../../src/daemon/platform/db/insert-together.ts'
import type { IncidentRow, Tables } from '../../../../src/daemon/platform/db/tables.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { incidentRow } from '../../records/ledger/rows.ts'

const HIGH_HALF = String.fromCharCode(0xd800)
const LOW_HALF = String.fromCharCode(0xdc00)

/** Every text that both engines can store, with many characters that need escaping. */
const text = fc.oneof(
  fc.string({ unit: 'binary' }).map((value) => value.replaceAll('\0', '')),
  fc.string({
    unit: fc.constantFrom('"', '\\', '\\u0000', '\\ud800', "'", '$1', '?', '\n', '\u2028', 'é', '😀', '1', 'null'),
  }),
)
const whole = fc.oneof(fc.maxSafeInteger(), fc.integer(), fc.constantFrom(0, -0, 1))

describeEachEngine('insertRows', (engine) => {
  const store = storeForEach(engine)

  const stored = () => store.db.selectFrom('incidents').selectAll().orderBy('id').execute()

  test('returns every text, integer and null as stored, for any number of rows', async () => {
    const row = fc.record({
      category: text,
      model: fc.option(text),
      match_count: whole,
      risk_score: fc.option(whole),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(row, { maxLength: 20 }), async (values) => {
        await store.db.deleteFrom('incidents').execute()
        const rows = values.map((value, position) => incidentRow(`r${String(position).padStart(3, '0')}`, value))
        expect(await insertRows(store.db, 'incidents', rows)).toBe(rows.length)
        // Neither engine has a negative zero among integers.
        const plain = (value: number | null) => (value === null ? null : value + 0)
        expect(await stored()).toEqual(
          rows.map((r) => ({ ...r, match_count: plain(r.match_count), risk_score: plain(r.risk_score) })),
        )
      }),
      { numRuns: 60 },
    )
  })

  test('rejects values that one of the engines cannot store, names the column, and writes nothing', async () => {
    const refused: Partial<Record<keyof IncidentRow, unknown>>[] = [
      { category: 'a\0b' },
      { category: `${HIGH_HALF}x` },
      { category: `x${LOW_HALF}` },
      { category: true },
      { category: undefined },
      { match_count: 0.5 },
      { match_count: Number.NaN },
      { match_count: 2 ** 53 },
      { match_count: 1n },
    ]
    for (const changes of refused) {
      const rows = [incidentRow('good'), { ...incidentRow('bad'), ...changes } as IncidentRow]
      const refusal = await insertRows(store.db, 'incidents', rows).catch((error: unknown) => error)
      expect(refusal).toBeInstanceOf(UnstorableValueError)
      expect(String(refusal)).toContain(`incidents.${Object.keys(changes)[0]}`)
    }
    expect(await stored()).toEqual([])
  })

  test('a column rejects values of another type', async () => {
    const wrong: Partial<Record<keyof IncidentRow, unknown>> = { match_count: 'many' }
    const rows = [{ ...incidentRow('bad'), ...wrong } as IncidentRow]
    await expect(insertRows(store.db, 'incidents', rows)).rejects.toThrow()
    expect(await stored()).toEqual([])
  })

  test('one existing row rejects all rows, or is skipped on request', async () => {
    await insertRows(store.db, 'incidents', [incidentRow('b', { match_count: 1 })])
    const rows = ['a', 'b', 'c'].map((id) => incidentRow(id, { match_count: 2 }))
    await expect(insertRows(store.db, 'incidents', rows)).rejects.toThrow(/unique/i)
    expect(await stored()).toHaveLength(1)
    expect(await insertRows(store.db, 'incidents', rows, { onConflict: 'ignore' })).toBe(2)
    expect((await stored()).map((row) => [row.id, row.match_count])).toEqual([
      ['a', 2],
      ['b', 1],
      ['c', 2],
    ])
  })

  test('inserts into one table differ by conflict handling and by column order', async () => {
    const row = { tenant_id: 't', holder: 'user', holder_id: 'u', period: '2026-11', nanos: 5, points: 7 } as const
    const { points, nanos, ...key } = row
    const turned = { points, nanos, ...key }
    const columns = ['tenant_id', 'holder', 'holder_id', 'period'] as const
    const counters = () => store.db.selectFrom('spend_counters').select(['nanos', 'points']).execute()
    for (let round = 1; round <= 2; round++) {
      await insertRows(store.db, 'spend_counters', [row], { onConflict: { replace: columns } })
      expect(await counters()).toEqual([{ nanos: 5, points: 7 }])
      await insertRows(store.db, 'spend_counters', [row], { onConflict: { addTo: columns } })
      await insertRows(store.db, 'spend_counters', [turned], { onConflict: { addTo: columns } })
      expect(await counters()).toEqual([{ nanos: 15, points: 21 }])
      await insertRows(store.db, 'spend_counters', [row], { onConflict: 'ignore' })
      await expect(insertRows(store.db, 'spend_counters', [row])).rejects.toThrow(/unique/i)
      expect(await counters()).toEqual([{ nanos: 15, points: 21 }])
    }
  })

  test('takes part in a transaction', async () => {
    const failing = store.db.transaction().execute(async (tx) => {
      await insertRows(tx, 'incidents', [incidentRow('a')])
      throw new Error('stop')
    })
    await expect(failing).rejects.toThrow('stop')
    expect(await stored()).toEqual([])
  })

  const entry = (seq: number, payload: string | null): Tables['evidence_entries'] => ({
    ...{ tenant_id: 'tenant', chain: 'chain', seq, id: `id-${seq}`, created_at: '', payload },
    ...{ payload_hash: '', entry_hash: '', commit_id: '', leaf_index: 0 },
  })
  const payloads = () => store.db.selectFrom('evidence_entries').select('payload').orderBy('seq').execute()

  test('returns long texts as stored, alone and together with others', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.option(text), { minLength: 1, maxLength: 12 }),
        fc.boolean(),
        async (texts, alone) => {
          await store.db.deleteFrom('evidence_entries').execute()
          await store.db.deleteFrom('incidents').execute()
          const rows = texts.map((payload, seq) => entry(seq, payload))
          if (alone) await insertRows(store.db, 'evidence_entries', rows)
          else {
            const usage = { table: 'incidents' as const, rows: [incidentRow('a')] }
            await insertTogether(store.db, [{ table: 'evidence_entries', rows }, usage])
          }
          expect(await payloads()).toEqual(texts.map((payload) => ({ payload })))
        },
      ),
      { numRuns: 60 },
    )
  })

  test('a value common to all rows is returned in each of them, and validated like any other', async () => {
    const common = ['commit_id', 'leaf_index'] as const
    await fc.assert(
      fc.asyncProperty(text, whole, fc.integer({ min: 1, max: 5 }), fc.boolean(), async (id, leaf, count, alone) => {
        await store.db.deleteFrom('evidence_entries').execute()
        await store.db.deleteFrom('incidents').execute()
        const same = { commit_id: id, leaf_index: leaf + 0 }
        const rows = Array.from({ length: count }, (_, seq) => ({ ...entry(seq, `payload ${seq}`), ...same }))
        const insert = { table: 'evidence_entries' as const, rows, common }
        if (alone) await insertRows(store.db, 'evidence_entries', rows, { common })
        else await insertTogether(store.db, [insert, { table: 'incidents', rows: [incidentRow('a')] }])
        expect(await store.db.selectFrom('evidence_entries').selectAll().orderBy('seq').execute()).toEqual(rows)
      }),
      { numRuns: 60 },
    )
    for (const bad of ['a\0b', `a${HIGH_HALF}`]) {
      const rows = [{ ...entry(90, 'payload'), commit_id: bad }]
      await expect(insertRows(store.db, 'evidence_entries', rows, { common })).rejects.toThrow(UnstorableValueError)
    }
  })
  test('rejects a NUL and a lone surrogate in long texts too, and stores text that only resembles them', async () => {
    for (const bad of ['a\0b', `a${HIGH_HALF}`, `${LOW_HALF}b`]) {
      const rows = [entry(0, 'good'), entry(1, bad)]
      await expect(insertRows(store.db, 'evidence_entries', rows)).rejects.toThrow(UnstorableValueError)
    }
    // Neither can be stored, although side by side they would be one character.
    const halves = insertRows(store.db, 'evidence_entries', [entry(0, 'a\ud83d'), entry(1, '\ude00b')])
    await expect(halves).rejects.toThrow(UnstorableValueError)
    expect(await payloads()).toEqual([])
    await insertRows(store.db, 'evidence_entries', [entry(0, '\ufffd'), entry(1, '\\u0000')])
    expect(await payloads()).toEqual([{ payload: '\ufffd' }, { payload: '\\u0000' }])
  })

  test('an empty list of rows is not a statement', async () => {
    expect(await insertRows(store.db, 'incidents', [])).toBe(0)
  })

  test('text is sorted by code point, and counts and sums are numbers', async () => {
    const models = ['b', 'B', 'a', 'é', 'z', '_', '1', '😀']
    await insertRows(
      store.db,
      'incidents',
      models.map((rule_name) => incidentRow(rule_name, { rule_name })),
    )
    const rows = await store.db.selectFrom('incidents').select('rule_name').orderBy('rule_name').execute()
    expect(rows.map((row) => row.rule_name)).toEqual(['1', 'B', '_', 'a', 'b', 'z', 'é', '😀'])
    const totals = sql`select count(*) as rows, sum(match_count) as tokens from incidents`
    expect((await totals.execute(store.db)).rows).toEqual([{ rows: 8, tokens: 96 }])
  })
})
