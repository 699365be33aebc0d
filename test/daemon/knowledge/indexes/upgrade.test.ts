import { hash } from 'node:crypto'
import { type Kysely, type Migration, Migrator, sql } from 'kysely'
import { expect, test } from 'vitest'
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { engineOf } from '../../../../src/daemon/platform/db/engine.ts'
import { migrateDatabase } from '../../../../src/daemon/platform/db/migrate.ts'
import type { MigrationStep } from '../../../../src/daemon/platform/db/migration-step.ts'
import { accounts } from '../../../../src/daemon/platform/db/migrations/0001-accounts.ts'
import { usage } from '../../../../src/daemon/platform/db/migrations/0002-usage.ts'
import { knowledge } from '../../../../src/daemon/platform/db/migrations/0003-knowledge.ts'
import { newApiKey } from '../../../../src/shared/ids.ts'
import { describeEachEngine, type TestPlace } from '../../../engines.ts'
import { type Gateway, startGateway } from '../../../harness.ts'
import { MULTIPART, multipart } from '../ingest/multipart.ts'

const FIRST_STEPS: Record<string, MigrationStep> = {
  '0001-accounts': accounts,
  '0002-usage': usage,
  '0003-knowledge': knowledge,
}
const OLD = '2025-01-01T00:00:00.000Z'
const BORDER = '\u200b'
const BASE = '/api/external/indexes'

/** The schema after the third migration. */
async function migrateToThird(db: Db): Promise<void> {
  const isSqlite = engineOf(db).name === 'sqlite'
  const dialect = isSqlite
    ? ({ engine: 'sqlite', text: 'text', integer: 'integer', tableEnd: ' strict' } as const)
    : ({ engine: 'postgres', text: 'text collate "C"', integer: 'bigint', tableEnd: '' } as const)
  const toMigration = (step: MigrationStep): Migration => ({
    async up(on: Kysely<unknown>) {
      for (const statement of step(dialect)) await sql.raw(statement).execute(on)
    },
  })
  const migrations = Object.fromEntries(Object.entries(FIRST_STEPS).map(([name, step]) => [name, toMigration(step)]))
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } })
  const { error } = await migrator.migrateToLatest()
  if (error !== undefined) throw error
}

/**
 * Rows as the daemon of that version wrote them: words of scripts without spaces separated by U+200B, and text hashes.
 */
async function fill(place: TestPlace): Promise<void> {
  const db = await openDatabase(place.options)
  try {
    await migrateToThird(db)
    const ids = { tenant: 'a'.repeat(24), user: 'b'.repeat(24), key: 'c'.repeat(24), index: 'd'.repeat(24) }
    await sql`insert into tenants (id, name, created_at) values (${ids.tenant}, 'default', ${OLD})`.execute(db)
    await sql`insert into users (id, tenant_id, name, email, username, role, status, created_at, updated_at)
      values (${ids.user}, ${ids.tenant}, 'Administrator', 'admin@localhost', 'admin', 'admin', 1, ${OLD}, ${OLD})`.execute(
      db,
    )
    await sql`insert into api_keys (id, tenant_id, user_id, name, secret_hash, is_operator, created_at)
      values (${ids.key}, ${ids.tenant}, ${ids.user}, 'first', ${hash('sha256', newApiKey())}, 1, ${OLD})`.execute(db)
    await sql`insert into indexes (id, tenant_id, name, description, created_by, created_at, updated_at)
      values (${ids.index}, ${ids.tenant}, 'handbook', 'Old', ${ids.user}, ${OLD}, ${OLD})`.execute(db)
    const documents = [
      { id: '1', source: 'leave.md', title: 'Leave', state: 'published' },
      { id: '2', source: '假期.md', title: '假期', state: 'published' },
      { id: '3', source: 'leave.md', title: 'Leave', state: 'draft' },
    ]
    for (const { id, source, title, state } of documents) {
      await sql`insert into documents
        (id, tenant_id, index_id, source, title, content_hash, passage_count, state, created_at)
        values (${id.repeat(24)}, ${ids.tenant}, ${ids.index}, ${source}, ${title}, 'of the text', 1, ${state}, ${OLD})`.execute(
        db,
      )
    }
    const passages = [
      { document: '1', position: 0, body: 'Everybody has thirty days of leave.' },
      { document: '1', position: 1, body: 'Leave may be carried over until March.' },
      { document: '2', position: 0, body: `每${BORDER}人${BORDER}有${BORDER}三十${BORDER}天${BORDER}假期。` },
      { document: '3', position: 0, body: 'Half a document that nobody may see: leave.' },
    ]
    for (const [at, { document, position, body }] of passages.entries()) {
      await sql`insert into passages (id, tenant_id, index_id, document_id, position, headings, body)
        values (${at + 1}, ${ids.tenant}, ${ids.index}, ${document.repeat(24)}, ${position}, ${document === '2' ? '' : 'Leave'}, ${body})`.execute(
        db,
      )
    }
  } finally {
    await db.destroy()
  }
}

describeEachEngine('a store that the third migration left', (engine) => {
  /** The configured key of the daemon replaces its first one. */
  async function upgraded(): Promise<Gateway> {
    return startGateway({
      engine: {
        ...engine,
        async place() {
          const place = await engine.place({ migrated: false })
          await fill(place)
          return place
        },
      },
    })
  }

  test('can be searched, listed, trained and used for answers by the current daemon, never partially', async () => {
    const { call, chat } = await upgraded()
    const search = async (query: string) =>
      (await call('GET', `${BASE}/handbook/search?query=${encodeURIComponent(query)}`)).body.results.matches
    expect((await search('days of leave')).map(({ content }: { content: string }) => content)).toEqual([
      'Everybody has thirty days of leave.',
      'Leave may be carried over until March.',
    ])
    expect((await search('假期'))[0]).toMatchObject({ source: '假期.md', content: '每人有三十天假期。' })

    const answer = await chat({ index: 'handbook', model: 'local/extract', prompt: 'How many days of leave?' })
    expect(answer.body.choices[0]?.message.content).toContain('"Everybody has thirty days of leave." [1]')

    const listed = (await call('GET', `${BASE}/handbook/documents`)).body
    expect(listed.documents.map(({ name }: { name: string }) => name).sort()).toEqual(['leave.md', '假期.md'])
    expect((await call('GET', `${BASE}/all`)).body.indexes[0]).toMatchObject({
      name: 'handbook',
      type: 'general',
      documentCount: 2,
    })

    // The hash of that version covered the text, so the file counts as changed and replaces the document.
    const body = multipart([{ fileName: 'leave.md', content: 'Everybody has forty days of leave.' }])
    const trained = await call('POST', `${BASE}/handbook/train`, body, { headers: MULTIPART })
    expect(trained.body.results.documents).toEqual([{ name: 'leave.md', status: 'indexed', chunks: 1 }])
    expect((await search('days of leave')).map(({ content }: { content: string }) => content)).toEqual([
      'Everybody has forty days of leave.',
    ])
  })

  test('has the same schema as a new store', async () => {
    const place = await engine.place({ migrated: false })
    await fill(place)
    const db = await openDatabase(place.options)
    const fresh = await engine.open()
    try {
      await migrateDatabase(db)
      expect(await describe(db)).toEqual(await describe(fresh.db))
    } finally {
      await db.destroy()
      await place.remove()
      await fresh.close()
    }
  })
})

/** Tables and columns with their types, in order. */
async function describe(db: Db) {
  const tables = await db.introspection.getTables()
  return tables
    .map(({ name, columns }) => [name, columns.map((column) => [column.name, column.dataType, column.isNullable])])
    .sort(([one], [other]) => (String(one) < String(other) ? -1 : 1))
}
