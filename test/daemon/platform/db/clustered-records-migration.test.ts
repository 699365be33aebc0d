import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { DIALECTS } from '../../../../src/daemon/platform/db/migrate.ts'
import { access } from '../../../../src/daemon/platform/db/migrations/0004-access.ts'
import { billing } from '../../../../src/daemon/platform/db/migrations/0005-billing.ts'
import { incidents } from '../../../../src/daemon/platform/db/migrations/0013-incidents.ts'
import { clusteredRecords } from '../../../../src/daemon/platform/db/migrations/0020-clustered-records.ts'
import { findIncident } from '../../../../src/daemon/safety/incidents/store.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { incidentRow } from '../../../incident-rows.ts'

describeEachEngine('the migration to clustered incidents and counters', (engine) => {
  const store = storeForEach(engine)
  const dialect = DIALECTS[engine.name]
  const run = async (statements: readonly string[]) => {
    for (const statement of statements) await sql.raw(statement).execute(store.db)
  }

  async function goBack(): Promise<void> {
    for (const table of ['incidents', 'rate_counters', 'spend_counters']) {
      await sql`drop table ${sql.table(table)}`.execute(store.db)
    }
    const counters = /^create table (rate_counters|spend_counters) /
    await run([
      ...incidents(dialect),
      ...[...access(dialect), ...billing(dialect)].filter((text) => counters.test(text)),
    ])
  }

  test('keeps every row with all its values', async () => {
    const { db } = store
    await goBack()
    const rows = [
      incidentRow({ tenant_id: 'one', created_at: '2026-03-02T00:00:00.123Z', model: 'test/any', risk_score: 92 }),
      incidentRow({ tenant_id: 'one', created_at: '2026-03-01T00:00:00.000Z', enforced: 0, types: '{"ÄÖ": 2}' }),
      incidentRow({ tenant_id: 'two', created_at: '2026-03-02T00:00:00.123Z' }),
    ]
    await db.insertInto('incidents').values(rows).execute()
    const counter = {
      ...{ tenant_id: 'one', api_key_id: 'key', counter: 'POST /groups minute', used: 7 },
      ...{ window_start: '2026-03-01T00:00:00.000Z', last_used_at: '2026-03-01T00:00:01.000Z' },
    }
    const spend = {
      tenant_id: 'one',
      holder: 'key',
      holder_id: 'k',
      period: '2026-03',
      nanos: 2 ** 40,
      points: 3,
    } as const
    await db.insertInto('rate_counters').values(counter).execute()
    await db.insertInto('spend_counters').values(spend).execute()
    await run(clusteredRecords(dialect))
    expect(await db.selectFrom('rate_counters').selectAll().execute()).toEqual([counter])
    expect(await db.selectFrom('spend_counters').selectAll().execute()).toEqual([spend])
    expect(await db.selectFrom('incidents').selectAll().orderBy('id').execute()).toEqual(
      rows.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    )
    for (const row of rows) expect(await findIncident(db, row.tenant_id, row.id)).toEqual(row)
    await expect(db.insertInto('incidents').values(rows).execute()).rejects.toThrow(/unique/i)
  })

  test('leaves the indexes that lists and ids need', async () => {
    const { db } = store
    const { rows } =
      engine.name === 'sqlite'
        ? await sql<{ name: string }>`select name from pragma_index_list('incidents')`.execute(db)
        : await sql<{ name: string }>`select indexname as name from pg_indexes where tablename = 'incidents'`.execute(
            db,
          )
    expect(rows).toHaveLength(engine.name === 'sqlite' ? 1 : 2)
  })
})
