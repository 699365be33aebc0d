import { sql } from 'kysely'
import { expect, test } from 'vitest'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { analyzeGrownTables } from '../../../../src/daemon/platform/db/postgres-statistics.ts'
import { postgresEngine } from '../../../engines.ts'
import { insertNamedIndex, insertTenant, sharedStore } from '../../knowledge/indexes/trained-store.ts'

const store = sharedStore(postgresEngine, async (db) => {
  await insertTenant(db, 'a')
  await insertNamedIndex(db, 'a', 'zoo')
})

test('statistics of a growing table are updated in time, so a row is found by its key', async () => {
  const { db } = store
  await insertDocuments(db, 0, 20)
  await analyzeGrownTables(db, ['documents', 'segments'])
  expect(await knownRows(db)).toBeLessThanOrEqual(0)

  await insertDocuments(db, 20, 2_000)
  await analyzeGrownTables(db, ['documents', 'segments'])
  expect(await knownRows(db)).toBe(2_000)
  const { rows } = await sql<{ 'QUERY PLAN': string }>`
    explain select 1 from documents where tenant_id = 'a' and index_id = 'zoo' and id = '7' for key share`.execute(db)
  expect(rows.map((row) => row['QUERY PLAN']).join('\n')).toMatch(/documents_(pkey|tenant_id_index_id_id_key)/)

  await insertDocuments(db, 2_000, 2_100)
  await analyzeGrownTables(db, ['documents', 'segments'])
  expect(await knownRows(db)).toBe(2_000)
})

async function insertDocuments(db: Db, from: number, to: number): Promise<void> {
  await sql`insert into documents
    (id, tenant_id, index_id, source, title, content_hash, passage_count, state, created_at, first_passage_id)
    select n::text, 'a', 'zoo', 'document ' || n, '', '', 1, 'published', '2026-01-01T00:00:00.000Z', n
    from generate_series(${from}::int, ${to}::int - 1) as n`.execute(db)
}

async function knownRows(db: Db): Promise<number | undefined> {
  const { rows } = await sql<{ known: number }>`
    select reltuples as known from pg_class where relname = 'documents'`.execute(db)
  return rows[0]?.known
}
